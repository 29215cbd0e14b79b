package journaltest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

func testRows(f *fixture) {
	f.acquire(0)
	step := journal.StepRow{
		Run: RunID(1), Step: 3, Name: "upload[7]", Kind: core.KindWait, Phase: core.StepBackingOff,
		Reason: policy.ReasonNoTimeLeft, Attempt: 2, ScheduledAt: at(1), EndedAt: at(2), NextAt: at(3), Deadline: at(4),
		Message: "exit status 1",
	}
	attempt := journal.AttemptRow{
		Run: RunID(1), Step: 3, Attempt: 2, ReadyAt: at(1), Started: at(2), Ended: at(3), Worker: "w1",
		Outcome: "error",
		Limit:   policy.LimitHeartbeat, Message: "exit status 1",
	}
	first, second := step, attempt
	first.Step, second.Attempt = 0, 1
	f.append(&journal.View{
		Runs: []journal.RunRow{row(1)}, Steps: []journal.StepRow{step, first},
		Attempts: []journal.AttemptRow{attempt, second},
	})
	steps, attempts := f.Rows(RunID(1))
	f.equal("steps", steps, []journal.StepRow{first, step})
	f.equal("attempts", attempts, []journal.AttemptRow{second, attempt})
	f.equal("runs", f.list(journal.Query{}).Runs, []journal.RunRow{row(1)})

	// A row replaces all columns of the older row.
	bare := journal.RunRow{
		ID: RunID(1), Workflow: "backup", Phase: core.RunSucceeded, CreatedAt: at(1), EndedAt: at(9), Applied: 2,
	}
	step = journal.StepRow{Run: RunID(1), Step: 3, Name: "upload[7]", Phase: core.StepSucceeded}
	attempt = journal.AttemptRow{Run: RunID(1), Step: 3, Attempt: 2, Outcome: "succeeded"}
	f.append(&journal.View{
		Runs: []journal.RunRow{bare}, Steps: []journal.StepRow{step}, Attempts: []journal.AttemptRow{attempt},
	})
	steps, attempts = f.Rows(RunID(1))
	f.equal("steps", steps, []journal.StepRow{first, step})
	f.equal("attempts", attempts, []journal.AttemptRow{second, attempt})
	f.equal("runs", f.list(journal.Query{}).Runs, []journal.RunRow{bare})
}

// testWhole writes runs whose rows all come at once, among others. They read like any others, also after some of their
// rows were replaced.
func testWhole(f *fixture) {
	f.acquire(0)
	v := &journal.View{}
	steps, attempts := map[int][]journal.StepRow{}, map[int][]journal.AttemptRow{}
	add := func(n, count int, change func(*journal.StepRow, *journal.AttemptRow)) {
		for i := range count {
			s := journal.StepRow{
				Run: RunID(n), Step: core.StepID(i), Name: "upload", Kind: core.KindTask, Phase: core.StepSucceeded,
				Attempt: 2, ScheduledAt: at(10 + i), EndedAt: at(20 + i),
			}
			first := journal.AttemptRow{
				Run: RunID(n), Step: s.Step, Attempt: 1, ReadyAt: at(10 + i), Started: at(11 + i), Ended: at(12 + i),
				Worker: "w1", Outcome: "timeout", Limit: policy.LimitHeartbeat, Message: "no sign of life",
			}
			second := first
			second.Attempt, second.Outcome, second.Limit, second.Message = 2, "succeeded", 0, ""
			if change != nil {
				change(&s, &second)
			}
			steps[n], attempts[n] = append(steps[n], s), append(attempts[n], first, second)
		}
		r := row(n)
		r.Phase, r.EndedAt, r.Wake = core.RunSucceeded, at(90), 0
		v.Runs = append(v.Runs, r)
		v.Steps, v.Attempts = append(v.Steps, steps[n]...), append(v.Attempts, attempts[n]...)
	}
	whole := func(n, count int, change func(*journal.StepRow, *journal.AttemptRow)) {
		add(n, count, change)
		v.New = append(v.New, RunID(n))
	}
	add(1, 2, nil)
	whole(2, 3, nil)
	whole(3, 0, nil)
	add(4, 1, nil)
	whole(5, 1, func(s *journal.StepRow, a *journal.AttemptRow) {
		s.Name, s.Message, a.Message = `"quoted" \ [7]`, "line\n<ü> \u202e\x1b", `{"a":[1,2]}`
		s.Reason, s.NextAt, s.Deadline = policy.ReasonNoTimeLeft, at(50), at(60)
	})
	whole(6, 300, nil)
	whole(7, 2, func(s *journal.StepRow, _ *journal.AttemptRow) { s.Deadline = at(1) }) // it is earlier than the step
	whole(8, 2, func(s *journal.StepRow, a *journal.AttemptRow) { s.Step, a.Step = s.Step+3, s.Step+3 })
	whole(9, 1, func(_ *journal.StepRow, a *journal.AttemptRow) { a.Ended, a.Outcome = 0, "" }) // it is still stopping
	add(10, 1, nil)
	f.append(v)
	check := func() {
		f.Helper()
		for n := 1; n <= 10; n++ {
			gotSteps, gotAttempts := f.Rows(RunID(n))
			slices.SortFunc(attempts[n], func(a, b journal.AttemptRow) int {
				return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Attempt, b.Attempt))
			})
			f.equal(fmt.Sprintf("steps of run %d", n), gotSteps, steps[n])
			f.equal(fmt.Sprintf("attempts of run %d", n), gotAttempts, attempts[n])
		}
	}
	check()
	// One goes on: a step is reset and tried again. The attempt that was stopping has stopped.
	again := &steps[2][1]
	again.Phase, again.Attempt, again.EndedAt = core.StepBackingOff, 3, 0
	third := attempts[2][3]
	third.Attempt, third.ReadyAt = 3, at(70)
	attempts[2] = append(attempts[2], third)
	stopped := &attempts[9][1]
	stopped.Ended, stopped.Outcome = at(80), "cancelled"
	f.append(&journal.View{
		Runs: []journal.RunRow{row(2), row(9)}, Steps: []journal.StepRow{*again},
		Attempts: []journal.AttemptRow{third, *stopped},
	})
	check()
}

// newRuns are runs whose first rows come at once, and the expected results.
type newRuns struct {
	steps   map[int][]journal.StepRow
	entries map[int][]core.Entry
}

// add adds a run to a view, which marks it as new unless it is run 3.
func (w *newRuns) add(v *journal.View, n int, entry core.Entry, all ...journal.StepRow) {
	for i := range all {
		all[i].Run, all[i].Step, all[i].ScheduledAt = RunID(n), core.StepID(i), at(10+i)
		if all[i].Name == "" {
			all[i].Name = fmt.Sprint("nap ", i)
		}
	}
	entry.Run = RunID(n)
	w.steps[n], w.entries[n] = all, append(w.entries[n], entry)
	v.Runs, v.Steps = append(v.Runs, row(n)), append(v.Steps, all...)
	v.History = append(v.History, piece(n, 1, entry))
	if n != 3 {
		v.New = append(v.New, RunID(n))
	}
}

// more adds the later rows of a run to a view: its first step ends and the next begins.
func (w *newRuns) more(v *journal.View, n int, next journal.StepRow) {
	r := row(n)
	r.Applied = 2
	entry := signal(2, "b")
	entry.Run = r.ID
	w.entries[n] = append(w.entries[n], entry)
	v.Runs, v.History = append(v.Runs, r), append(v.History, piece(n, 2, entry))
	if len(w.steps[n]) == 0 {
		return
	}
	first := &w.steps[n][0]
	first.EndedAt, first.Phase, first.NextAt = at(70), core.StepSucceeded, 0
	next.Run, next.Step, next.Name, next.ScheduledAt = r.ID, core.StepID(len(w.steps[n])), "next", at(71)
	v.Steps = append(v.Steps, *first, next)
	w.steps[n] = append(w.steps[n], next)
}

// check compares runs 1 to 9 with the journal's answers.
func (w *newRuns) check(f *fixture) {
	f.Helper()
	for n := 1; n <= 9; n++ {
		got, _ := f.Rows(RunID(n))
		if got == nil {
			got = []journal.StepRow{}
		}
		f.equal(fmt.Sprintf("steps of run %d", n), got, append([]journal.StepRow{}, w.steps[n]...))
		f.equal(fmt.Sprintf("history of run %d", n), f.history(RunID(n)).Entries, w.entries[n])
	}
	page := f.list(journal.Query{Retrying: true})
	f.equal("runs that are retried", len(page.Runs), 1)
}

// testNew writes runs whose first rows come at once, with their histories. They read like any others, also after more
// of them came.
func testNew(f *fixture) {
	f.acquire(0)
	sleeps := journal.StepRow{
		Kind: core.KindSleep, Phase: core.StepSuspended, Attempt: 1, NextAt: at(900), Deadline: at(901),
	}
	ended := journal.StepRow{Kind: core.KindTask, Phase: core.StepSucceeded, Attempt: 2, EndedAt: at(12)}
	retried := journal.StepRow{Kind: core.KindTask, Phase: core.StepBackingOff, Attempt: 3, NextAt: at(50)}
	strange := sleeps
	strange.Name, strange.Message = "\"quoted\" \\ [7]", "line\n<\u00fc> \u202e\x00\xff"
	w := &newRuns{steps: map[int][]journal.StepRow{}, entries: map[int][]core.Entry{}}
	v := &journal.View{}
	w.add(v, 1, signal(1, "a"), sleeps)
	w.add(v, 2, signal(1, "a"), ended, sleeps)
	w.add(v, 3, signal(1, "a"), ended, sleeps)
	w.add(v, 4, signal(1, "a"), retried, sleeps)
	w.add(v, 5, signal(1, strings.Repeat("long ", 1000)), sleeps)
	w.add(v, 6, signal(1, "a"))
	w.add(v, 7, signal(1, "a"), strange)
	w.add(v, 8, signal(1, "a"), slices.Repeat([]journal.StepRow{ended}, 100)...)
	w.add(v, 9, signal(1, "a"), sleeps)
	f.append(v)
	w.check(f)

	more := &journal.View{}
	for n := 1; n <= 8; n++ {
		w.more(more, n, sleeps)
	}
	retry := &w.steps[9][0] // the step of this run was folded, if steps are
	retry.Attempt, retry.Phase = 2, core.StepBackingOff
	more.Runs, more.Steps = append(more.Runs, row(9)), append(more.Steps, *retry)
	f.append(more)
	w.check(f)
}

func testHistory(f *fixture) {
	f.acquire(0)
	var want []core.Entry
	for n := range 30 {
		want = append(want, signal(1, string(rune('a'+n))))
		f.append(nil, want[n], signal(2, "other"))
	}
	withHistory := func(applied uint64, h journal.HistoryRow) *journal.View {
		r := row(1)
		r.Applied = applied
		return &journal.View{Runs: []journal.RunRow{r}, History: []journal.HistoryRow{h}}
	}
	f.append(withHistory(10, piece(1, 1, want[:10]...)))
	f.equal("history", f.history(RunID(1)), journal.History{Applied: 10, Entries: want[:10]})
	// History may also have entries that contain their run's id.
	full := journal.HistoryRow{Run: RunID(1), Seq: 11}
	for i := range want[10:20] {
		full.Entries = core.AppendEntry(full.Entries, &want[10+i])
	}
	f.append(withHistory(20, full))
	h := f.history(RunID(1))
	f.equal("history", h, journal.History{Applied: 20, Entries: want[:20]})
	// History and the tail after it make the run.
	all := h.Entries
	_, tail := f.tail(0, h.Applied)
	for _, e := range tail {
		if e.Run == RunID(1) {
			all = append(all, e)
		}
	}
	f.equal("the run", all, want)
	_, err := f.j.History(f.ctx, RunID(2))
	f.fails("a run the view has not seen", err, journal.ErrNotFound)
}

func testHistoryTwice(f *fixture) {
	f.acquire(0)
	v := &journal.View{Runs: []journal.RunRow{row(1)}, History: []journal.HistoryRow{piece(1, 1, signal(1, "a"))}}
	f.append(v, signal(1, "a"))
	b := &journal.Batch{Epoch: f.lease.Epoch, Seq: 2, Entries: []core.Entry{signal(2, "b")}, View: v}
	if err := f.j.Append(f.ctx, b); err == nil {
		f.Error("the same piece of history was appended twice")
	}
	// The refused batch has changed nothing.
	seqs, _ := f.tail(0, 0)
	f.equal("batches", seqs, []uint64{1})
	f.append(nil, signal(3, "c"))
}

func testTrim(f *fixture) {
	f.acquire(0)
	for n := range 100 {
		f.append(nil, signal(n, "a"))
	}
	f.append(&journal.View{Through: 60})
	for range 100 { // a journal may delete only a few batches at a time
		f.append(&journal.View{Through: 60})
	}
	f.equal("through", f.again().Through, uint64(60))
	seqs, _ := f.tail(0, 60)
	f.equal("batches after the watermark", len(seqs), 141)
	seqs, _ = f.tail(0, 0)
	if seqs[0] == 1 || seqs[0] > 61 {
		f.Errorf("the journal begins with batch %d, the watermark is 60", seqs[0])
	}
	// A watermark that covers everything does not restart the sequence numbers. An older watermark does not move it
	// back.
	f.append(&journal.View{Through: f.lease.Last + 1})
	f.append(&journal.View{Through: 10})
	last := f.lease.Last
	f.j = f.Reopen()
	l := f.acquire(0)
	f.equal("last", l.Last, last)
	f.equal("through", l.Through, last-1)
}

func testDue(f *fixture) {
	f.acquire(0)
	v := &journal.View{}
	for n, wake := range []core.Time{at(50), at(30), 0, at(40), 1, at(30)} {
		r := row(n)
		r.Wake = wake
		v.Runs = append(v.Runs, r)
	}
	elsewhere := row(10)
	elsewhere.Partition, elsewhere.Wake = 1, at(30)
	f.append(v)
	f.appendTo(1, &journal.View{Runs: []journal.RunRow{elsewhere}})
	due := func(from, before core.Time, limit int, want ...int) {
		f.Helper()
		got, err := f.j.Due(f.ctx, 0, from, before, limit)
		f.fails("due", err, nil)
		var runs []core.RunID
		for _, d := range got {
			runs = append(runs, d.Run)
			n := slices.IndexFunc(v.Runs, func(r journal.RunRow) bool { return r.ID == d.Run })
			f.equal("wake", d.Wake, v.Runs[n].Wake)
		}
		var ids []core.RunID
		for _, n := range want {
			ids = append(ids, RunID(n))
		}
		f.equal("due", runs, ids)
	}
	due(0, at(50), 10, 4, 1, 5, 3)
	due(0, at(50)+1, 10, 4, 1, 5, 3, 0)
	due(2, at(40), 10, 1, 5)
	due(at(30), at(1000), 2, 1, 5)
	due(at(30)+1, at(40), 10)

	closed := v.Runs[1]
	closed.Phase, closed.Wake, closed.EndedAt = core.RunFailed, 0, at(31)
	later := v.Runs[5]
	later.Wake = at(60)
	f.append(&journal.View{Runs: []journal.RunRow{closed, later}})
	v.Runs[5] = later
	due(2, at(1000), 10, 3, 0, 5)
}

func testFind(f *fixture) {
	f.acquire(0)
	closed, open, former := row(1), row(2), row(0)
	former.Workflow, closed.Workflow, open.Workflow = "charge", "charge", "charge"
	// The runs of a chain share the key.
	former.Key, former.Phase, former.EndedAt, former.Wake = "key-1", core.RunContinued, at(1), 0
	closed.WorkflowID, closed.Phase, closed.EndedAt, closed.Wake = "nightly", core.RunFailed, at(2), 0
	open.WorkflowID = "nightly"
	other := row(3)
	other.Workflow, other.Key = "refund", "key-1" // its own: keys belong to workflows
	f.append(&journal.View{Runs: []journal.RunRow{closed, former, other}})
	_, err := f.j.Find(f.ctx, journal.Lookup{WorkflowID: "nightly"})
	f.fails("a closed run", err, journal.ErrNotFound)
	f.append(&journal.View{Runs: []journal.RunRow{open}})
	find := func(by journal.Lookup, want int) {
		f.Helper()
		id, err := f.j.Find(f.ctx, by)
		f.fails("find", err, nil)
		f.equal("run", id, RunID(want))
	}
	find(journal.Lookup{WorkflowID: "nightly"}, 2)
	find(journal.Lookup{Workflow: "charge", Key: "key-1"}, 1)
	find(journal.Lookup{Workflow: "charge", Key: "key-2"}, 2)
	find(journal.Lookup{Workflow: "refund", Key: "key-1"}, 3)
	elsewhere := row(4)
	elsewhere.Workflow, elsewhere.Key, elsewhere.WorkflowID, elsewhere.Partition = "charge", "key-1", "weekly", 1
	f.appendTo(1, &journal.View{Runs: []journal.RunRow{elsewhere}})
	find(journal.Lookup{Workflow: "charge", Key: "key-1"}, 4)
	find(journal.Lookup{Workflow: "charge", Key: "key-1", Here: true}, 1)
	find(journal.Lookup{Workflow: "charge", Key: "key-1", Here: true, Partition: 1}, 4)
	find(journal.Lookup{WorkflowID: "weekly", Here: true, Partition: 1}, 4)
	_, err = f.j.Find(f.ctx, journal.Lookup{WorkflowID: "weekly", Here: true})
	f.fails("a run of another partition", err, journal.ErrNotFound)
	for _, by := range []journal.Lookup{
		{},
		{WorkflowID: "x"},
		{Workflow: "charge", Key: "nightly"},
		{WorkflowID: "key-1"},
		{Key: "key-1"},
		{Workflow: "charge"},
		{Workflow: "refund", Key: "key-2"},
		{Workflow: "x", Key: "key-1"},
	} {
		_, err := f.j.Find(f.ctx, by)
		f.fails("find", err, journal.ErrNotFound)
	}
}

func testList(f *fixture) {
	f.acquire(0)
	v := &journal.View{}
	for n := range 120 {
		r := row(n)
		r.Workflow = []string{"backup", "restore", "audit"}[n%3]
		if n%4 == 0 {
			r.Phase, r.EndedAt, r.Wake = core.RunFailed, at(n), 0
		}
		if n%10 == 0 {
			r.WorkflowID = "daily" // the id belongs to this one of three partitions
		}
		v.Runs = append(v.Runs, r)
	}
	f.append(v)
	p := f.list(journal.Query{})
	f.equal("default page", len(p.Runs), journal.DefaultLimit)
	f.equal("more", p.More, true)
	f.equal("newest first", p.Runs[0], v.Runs[119])

	count := func(q journal.Query, keep func(n int) bool) {
		f.Helper()
		var got, want []journal.RunRow
		for range 20 {
			p := f.list(q)
			got = append(got, p.Runs...)
			if !p.More {
				break
			}
			if len(p.Runs) != q.Limit {
				f.Fatalf("a page of %d with more to come, limit %d", len(p.Runs), q.Limit)
			}
			q.After = p.Runs[len(p.Runs)-1].ID
		}
		for n := 119; n >= 0; n-- {
			if keep(n) {
				want = append(want, v.Runs[n])
			}
		}
		f.equal("rows", got, want)
	}
	failed := func(n int) bool { return n%4 == 0 }
	count(journal.Query{Limit: 7}, func(int) bool { return true })
	count(journal.Query{Limit: 60}, func(int) bool { return true })
	count(journal.Query{Limit: 7, Workflow: "restore"}, func(n int) bool { return n%3 == 1 })
	count(journal.Query{Limit: 7, Phases: []core.RunPhase{core.RunFailed}}, failed)
	phases := []core.RunPhase{core.RunFailed, core.RunWaiting}
	count(journal.Query{Limit: 7, Phases: phases}, func(int) bool { return true })
	count(journal.Query{Limit: 7, WorkflowID: "daily"}, func(n int) bool { return n%10 == 0 })
	count(journal.Query{Limit: 3, WorkflowID: "daily", Workflow: "audit", Phases: []core.RunPhase{core.RunWaiting}},
		func(n int) bool { return n%10 == 0 && n%3 == 2 && !failed(n) })
	count(journal.Query{Limit: 7, Workflow: "no such"}, func(int) bool { return false })
}

func testPrune(f *fixture) {
	f.acquire(0)
	ids := make([]core.RunID, 40)
	views := [2]journal.View{}
	for n := range ids {
		r := row(n)
		if n%2 == 0 {
			r.Phase, r.EndedAt, r.Wake = core.RunSucceeded, at(n), 0
		}
		if n >= 30 {
			r.Partition, r.ID[9] = 1, 1 // the id names the partition
		}
		ids[n] = r.ID
		v := &views[r.Partition]
		v.Runs = append(v.Runs, r)
		v.Steps = append(v.Steps, journal.StepRow{Run: r.ID, Name: "s", ScheduledAt: at(n + 1)})
		v.Attempts = append(v.Attempts, journal.AttemptRow{Run: r.ID, Attempt: 1})
		if n%4 == 0 {
			v.New = append(v.New, r.ID)
		}
		p := piece(n, 1, signal(n, "a"))
		p.Run = r.ID
		v.History = append(v.History, p)
	}
	f.append(&views[0])
	f.appendTo(1, &views[1])
	prune := func(before core.Time, limit, want int) {
		f.Helper()
		n, err := f.j.Prune(f.ctx, 0, journal.Old{Before: before, Limit: limit})
		f.fails("prune", err, nil)
		f.equal("pruned", n, want)
	}
	prune(at(20), 4, 4)
	prune(at(20), 100, 6) // 0, 2 … 18
	prune(at(20), 100, 0)
	f.equal("rows", len(f.list(journal.Query{Limit: 100}).Runs), 30)
	for n, id := range ids {
		_, err := f.j.History(f.ctx, id)
		steps, attempts := f.Rows(id)
		absent := len(steps)+len(attempts) == 0
		if gone := n%2 == 0 && n < 20; gone != errors.Is(err, journal.ErrNotFound) || gone != absent {
			f.Errorf("run %d: history %v, %d steps, %d attempts", n, err, len(steps), len(attempts))
		}
	}
	_, err := f.j.Find(f.ctx, journal.Lookup{Workflow: "backup", Key: "key-2"})
	f.fails("find", err, journal.ErrNotFound)
	testRemove(f, ids)
	prune(at(1000), 100, 4) // 20, 22, 26, 28
	n, err := f.j.Prune(f.ctx, 1, journal.Old{Before: at(1000), Limit: 100})
	f.fails("prune", err, nil)
	f.equal("pruned in partition 1", n, 5)
	f.equal("rows", len(f.list(journal.Query{Limit: 100}).Runs), 20)

	// Nothing of a pruned run is left: another run with its id has a new history.
	f.append(&journal.View{
		Runs: []journal.RunRow{row(2)}, History: []journal.HistoryRow{piece(2, 1, signal(2, "b"))},
	})
	f.equal("history", f.history(RunID(2)).Entries, []core.Entry{signal(2, "b")})
	steps, attempts := f.Rows(RunID(2))
	f.equal("steps and attempts", len(steps)+len(attempts), 0)
}
