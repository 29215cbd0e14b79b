package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nightly"
)

func TestOneStep(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	id := r.start(flow("one", task()))
	r.settle()
	r.wantPhase(id, core.RunSucceeded)
	r.pass(time.Minute)
	if n := r.p.Stats(); n.Loaded != 0 || n.Behind != 0 {
		t.Fatalf("left in memory: %+v", n)
	}
	r.wantPhase(id, core.RunSucceeded)
}

// TestCommitsOfASequence checks that a sequential workflow of n steps costs n+1 commits: the start with the first step,
// the end of each step with the start of the next one, and the end.
func TestCommitsOfASequence(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	r.start(flow("three", task(), task(), task()))
	commits := 0
	for r.p.pipeline.open.entries > 0 {
		r.commit()
		commits++
		for _, rep := range r.inbox {
			r.p.Report(rep.run, rep.in, r.now)
		}
		r.inbox = nil
	}
	if commits != 4 {
		t.Fatalf("%d commits, want 4", commits)
	}
}

// TestEffectsWaitForTheirBatch checks that nothing leaves the partition before the batch that caused it is durable.
func TestEffectsWaitForTheirBatch(t *testing.T) {
	r := newRig(t, -1)
	answered := false
	first := r.p.Cut(r.now)
	if first != nil {
		t.Fatalf("an empty partition has a batch: %+v", first)
	}
	c := &StartCall{Start: StartRequest{Definition: flow("one", task()).definition()}}
	c.Done = func(error) { answered = true }
	ask(r, c)
	b1 := r.p.Cut(r.now)
	id2 := r.start(flow("one", task()))
	b2 := r.p.Cut(r.now)
	if answered || len(r.workers.tasks) > 0 {
		t.Fatal("an effect came before its commit")
	}
	for _, b := range []*journal.Batch{b1, b2} {
		if err := r.journal.Append(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	r.p.Committed(r.now)
	if !answered || len(r.workers.tasks) != 1 || r.workers.tasks[0].Token.Run == id2 {
		t.Fatalf("after the first commit: answered %v, tasks %v", answered, r.workers.tasks)
	}
	r.p.Committed(r.now)
	if len(r.workers.tasks) != 2 {
		t.Fatal("the second task was not handed over")
	}
}

func TestSleepersLeaveMemoryAndWakeOnTime(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	p := flow("sleeper", task(), nap(time.Hour), task())
	var ids []core.RunID
	for range 200 {
		ids = append(ids, r.start(p))
	}
	r.pass(time.Minute)
	if n := r.p.Stats(); n.Loaded != 0 {
		t.Fatalf("%d sleeping runs in memory", n.Loaded)
	}
	r.workers.dispatched()
	before := r.now
	r.pass(time.Hour)
	tasks := r.workers.dispatched()
	if len(tasks) != len(ids) {
		t.Fatalf("%d second steps, want %d", len(tasks), len(ids))
	}
	for _, id := range ids {
		entries := r.history(id)
		if late := entries[len(entries)-1].At - epoch - core.Time(time.Hour/time.Microsecond); late < 0 || late > 1000 {
			t.Fatalf("run %s ended %d µs after it was due (started %s)", id, late, before)
		}
	}
}

// history reads a run's entries from the journal, and adds those that the view does not have yet.
func (r *rig) history(id core.RunID) []core.Entry {
	r.t.Helper()
	c := ask(r, &EntriesCall{Run: id})
	h, err := r.journal.History(context.Background(), id)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		r.t.Fatal(err)
	}
	entries, err := join(h, c.Answer.Pieces)
	if err != nil {
		r.t.Fatal(err)
	}
	return entries
}

func TestSleepersSurviveARestart(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	p := flow("sleeper", nap(time.Hour), task())
	var ids []core.RunID
	for range 20 {
		ids = append(ids, r.start(p))
	}
	r.settle() // their entries are in the tail, not in the view
	r.restart()
	r.pass(time.Minute)
	r.now += core.Time(2 * time.Hour / time.Microsecond) // they come due while no process runs
	r.restart()
	r.settle()
	for _, id := range ids {
		r.wantPhase(id, core.RunSucceeded)
	}
}

// TestViewAgreesWithHistory checks that the rows of the view agree with the state that follows from the history.
func TestViewAgreesWithHistory(t *testing.T) {
	r := newRig(t, 2)
	r.workers.act = func(c core.Task) core.Input {
		if c.Count == 1 && c.StepName == "s0" {
			return failTask(c)
		}
		return succeed(c)
	}
	p := flow("mix", task().tries(3, 30*time.Second), nap(time.Minute), task())
	var ids []core.RunID
	for range 30 {
		ids = append(ids, r.start(p))
		r.pass(700 * time.Millisecond)
	}
	r.pass(5 * time.Minute)
	for _, id := range ids {
		h, err := r.journal.History(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		s := core.Restore(id, r.definition(h.Entries), h.Entries)
		if s.Phase != core.RunSucceeded || s.Steps[0].Attempt != 2 {
			t.Fatalf("%s: %s after %d attempts of the first step", id, s.Phase, s.Steps[0].Attempt)
		}
		row := r.row(id)
		if row.Phase != s.Phase || row.EndedAt != s.EndedAt || row.Wake != 0 {
			t.Fatalf("row %+v of a run that is %s", row, s.Phase)
		}
	}
}

func (r *rig) row(id core.RunID) journal.RunRow {
	page, err := r.journal.List(context.Background(), journal.Query{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(page.Runs, func(row journal.RunRow) bool { return row.ID == id })
	return page.Runs[i]
}

// TestDeterministic checks that the same calls at the same instants make the same batches.
func TestDeterministic(t *testing.T) {
	var runs [2][]string
	for i := range runs {
		r := newRig(t, 3)
		r.journal.Fault = nil
		r.workers.act = succeed
		r.plans["inner"] = flow("inner", nap(time.Second), task()).definition()
		for n := range 40 {
			r.start(flow("a", task(), nap(time.Duration(n%7)*time.Second), child(payload("inner")), task()))
			if n%9 == 0 {
				r.pass(time.Duration(n) * 100 * time.Millisecond)
			}
		}
		for range 300 {
			b := r.p.Cut(r.now)
			if b != nil {
				runs[i] = append(runs[i], fmt.Sprintf("%d %x %v", b.Seq, b.Encoded, b.View))
				if err := r.journal.Append(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				r.p.Committed(r.now)
			}
			r.round()
			r.now += 100_000
		}
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Fatal("two runs of the same calls differ")
	}
}

func TestStaleAndUnknownReports(t *testing.T) {
	r := newRig(t, -1)
	id := r.start(flow("one", task()))
	r.settle()
	tok := r.workers.dispatched()[0]
	for range 3 {
		r.p.Report(id, succeed(tok), r.now)
	}
	r.p.Report(core.RunID{1}, succeed(tok), r.now)
	r.pass(time.Minute)
	r.p.Report(id, failTask(tok), r.now)
	r.pass(time.Minute)
	r.wantPhase(id, core.RunSucceeded)
	if n := len(r.history(id)); n != 3 { // start, attempt start, end
		t.Fatalf("%d entries, want 3", n)
	}
}

func TestInputsOfUnknownRuns(t *testing.T) {
	r := newRig(t, -1)
	c := ask(r, &InputCall{Run: core.RunID{9}, Input: core.SignalReceived{Name: "x"}})
	if !errors.Is(c.Err, ErrNotFound) {
		t.Fatal(c.Err)
	}
	id := r.start(flow("one", task()))
	c = ask(r, &InputCall{Run: id, Input: core.Operation{Op: core.OpResume, Step: core.NoStep}})
	if !errors.Is(c.Err, ErrConflict) {
		t.Fatal(c.Err)
	}
}

// TestClockSetBack checks that when the clock is set back, the partition's time does not go back.
func TestClockSetBack(t *testing.T) {
	r := newRig(t, -1)
	id := r.start(flow("nap", nap(time.Minute)))
	r.settle()
	r.now -= 3_600_000_000
	r.start(flow("one", task()))
	r.settle()
	if r.p.now < epoch {
		t.Fatal("the partition followed the clock back")
	}
	r.now += 3_600_000_000
	r.pass(2 * time.Minute)
	r.wantPhase(id, core.RunSucceeded)
}

// TestOutcomeWaitsForItsBatch checks that a waiter is told an outcome when it is durable, not before.
func TestOutcomeWaitsForItsBatch(t *testing.T) {
	r := newRig(t, -1)
	id := r.start(flow("one", task()))
	r.settle()
	r.p.Report(id, succeed(r.workers.dispatched()[0]), r.now)
	w := NewWaiter()
	c := &ResultCall{Run: id, Waiter: w}
	c.Done = func(error) { t.Errorf("told at once: %+v", c.Answer) }
	ask(r, c)
	b := r.p.Cut(r.now)
	if _, ok := w.Ended(); ok {
		t.Fatal("told before the append")
	}
	if err := r.journal.Append(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	r.p.Committed(r.now)
	if out, ok := w.Ended(); !ok || out.Phase != core.RunSucceeded {
		t.Fatalf("not told after the append: %+v", out)
	}
}

// TestReadWaitsForItsRun checks that a reader of a run waits until the run's entries are durable, and no longer: what
// is recorded of other runs meanwhile does not hold it up.
func TestReadWaitsForItsRun(t *testing.T) {
	r := newRig(t, -1)
	read := func(id core.RunID) *bool {
		answered := new(bool)
		c := &EntriesCall{Run: id}
		c.Done = func(err error) {
			if err != nil || c.Answer.Folded == 0 {
				t.Errorf("read: %v, %d entries", err, c.Answer.Folded)
			}
			*answered = true
		}
		ask(r, c)
		return answered
	}
	settled := r.start(flow("one", task()))
	r.settle()
	var batches []*journal.Batch
	var of []*bool
	for range 2 {
		of = append(of, read(r.start(flow("one", task()))))
		batches = append(batches, r.p.Cut(r.now))
	}
	of = append(of, read(r.start(flow("one", task())))) // the open batch has it
	batches = append(batches, nil)
	if !*read(settled) {
		t.Error("the reader of a run whose entries are durable waits for those of others")
	}
	for i, b := range batches {
		if b == nil {
			b = r.p.Cut(r.now)
		}
		for n, answered := range of {
			if *answered != (n < i) {
				t.Errorf("after %d commits: reader %d has its answer: %v", i, n, *answered)
			}
		}
		if err := r.journal.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		r.p.Committed(r.now)
		if !*of[i] {
			t.Errorf("reader %d has no answer although its run's entries are durable", i)
		}
	}
}

// TestLoadedRunIsOutOfDate checks that a run that a reader has read from the view is ignored if it was loaded, changed
// and left memory meanwhile.
func TestLoadedRunIsOutOfDate(t *testing.T) {
	r := newRig(t, -1)
	id := r.start(flow("wait", nap(time.Hour), nap(2*time.Hour)))
	r.pass(time.Minute)
	r.now += core.Time((time.Hour - time.Minute - 2*time.Second) / time.Microsecond)
	w, ok := r.p.Window(r.now)
	if !ok {
		t.Fatal("no window though a run comes due")
	}
	var read []Loaded
	far, err := ReadWindow(context.Background(), r.journal, 0, w, func(l []Loaded) error {
		read = append(read, l...)
		return nil
	})
	if err != nil || len(read) != 1 {
		t.Fatal(read, err)
	}
	ask(r, &InputCall{Run: id, Input: core.Operation{Op: core.OpTerminate, Step: core.NoStep}})
	for range 10 {
		r.now += 1_000_000
		r.commit()
	}
	if r.p.Stats().Loaded != 0 {
		t.Fatal("the run has not left memory")
	}
	r.p.Loaded(w, read, r.now)
	r.p.WindowDone(w, far, nil)
	if r.p.Stats().Loaded != 0 {
		t.Fatal("the old state of a run was loaded")
	}
	r.pass(24 * time.Hour)
	r.wantPhase(id, core.RunTerminated)
}

// TestSleepersHoldNoMemory checks that a sleeping run uses no memory in the partition.
func TestSleepersHoldNoMemory(t *testing.T) {
	nightly.Only(t, "it starts 100,000 runs")
	const n = 100_000
	r := newRig(t, -1)
	def := flow("sleep", nap(24*time.Hour)).definition()
	r.journal.Fault = nil
	for i := range n {
		ask(r, &StartCall{Start: StartRequest{Definition: def}})
		if i%200 == 199 {
			for r.commit() {
			}
			r.now += 10_000
		}
		if l := r.p.Stats().Loaded; l > 20_000 {
			t.Fatalf("%d runs in memory", l)
		}
	}
	r.pass(time.Minute)
	if s := r.p.Stats(); s.Loaded != 0 || s.Behind != 0 {
		t.Fatalf("%+v", s)
	}
	with := heapBytes()
	r.p = nil
	if held := int64(with) - int64(heapBytes()); held > 64*n {
		t.Fatalf("%d sleeping runs hold %d bytes of the partition's memory", n, held)
	}
	runtime.KeepAlive(r) // the journal's memory must not count
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestUnknownDefinition checks that a run whose definition this process does not know is set aside, and the others go
// on. A process that knows the definition carries it on.
func TestUnknownDefinition(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	strange := flow("strange", nap(time.Second), task())
	a := r.start(strange)
	b := r.start(flow("known", nap(time.Second), task()))
	r.commit()
	r.unknown = "strange"
	r.restart()
	r.pass(time.Minute)
	r.wantPhase(b, core.RunSucceeded)
	if c := ask(r, &InputCall{Run: a, Input: core.SignalReceived{Name: "x"}}); c.Err == nil {
		t.Fatal("a run that is set aside took an input")
	}
	r.restart()
	r.pass(time.Minute)
	r.unknown = ""
	r.restart()
	r.pass(time.Minute)
	r.wantPhase(a, core.RunSucceeded)
}

// TestUnknownKind checks that a run of a kind that this process does not know is set aside. Calls for it fail with an
// error that names the kind. A process that knows the kind carries it on.
func TestUnknownKind(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	a := r.start(flow("strange", nap(time.Second), task()))
	b := r.start(flow("other", nap(2*time.Second), task()))
	r.commit()
	r.kinds = map[string]Kind{"renamed": r.kinds["plan"]}
	r.restart()
	r.pass(time.Minute)
	c := ask(r, &InputCall{Run: a, Input: core.SignalReceived{Name: "x"}})
	const says = `is of kind "plan", which this process cannot run (it knows: renamed)`
	if !errors.Is(c.Err, ErrConflict) || !strings.Contains(c.Err.Error(), says) {
		t.Fatalf("an input for a run of an unknown kind: %v", c.Err)
	}
	r.kinds["plan"] = r.kinds["renamed"]
	r.restart()
	r.pass(time.Minute)
	r.wantPhase(a, core.RunSucceeded)
	r.wantPhase(b, core.RunSucceeded)
}
