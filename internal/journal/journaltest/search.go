package journaltest

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// testSearch checks that runs are found by their deadlines, the soonest first, by whether they are retried, and by
// several of these things at once, page by page.
func testSearch(f *fixture) {
	f.acquire(0)
	v := viewToSearch()
	f.append(v)
	found := func(q journal.Query, keep func(r *journal.RunRow) bool) {
		f.Helper()
		var got, want []journal.RunRow
		for q.Limit = 3; ; {
			p := f.list(q)
			got = append(got, p.Runs...)
			if !p.More {
				break
			}
			q.GoOn(&p.Runs[len(p.Runs)-1])
		}
		for i := range v.Runs {
			if keep(&v.Runs[i]) {
				want = append(want, v.Runs[i])
			}
		}
		f.equal("rows", got, sorted(want, &q))
	}
	radar := func(r *journal.RunRow) bool { return r.EndedAt == 0 && r.Deadline > 0 }
	found(journal.Query{ByDeadline: true}, radar)
	found(journal.Query{ByDeadline: true, DeadlineBefore: at(300)}, func(r *journal.RunRow) bool {
		return radar(r) && r.Deadline < at(300)
	})
	found(journal.Query{ByDeadline: true, Retrying: true, Workflow: "order"}, func(r *journal.RunRow) bool {
		return radar(r) && r.Retrying && r.Workflow == "order"
	})
	found(journal.Query{Retrying: true}, func(r *journal.RunRow) bool { return r.Retrying })
	found(journal.Query{Retrying: true, Workflow: "audit", CreatedFrom: at(10)}, func(r *journal.RunRow) bool {
		return r.Retrying && r.Workflow == "audit" && r.CreatedAt >= at(10)
	})
	open := []core.RunPhase{core.RunRunning, core.RunWaiting, core.RunWaiting, core.RunPaused}
	found(journal.Query{Phases: open, Workflow: "order", Top: true}, func(r *journal.RunRow) bool {
		return r.EndedAt == 0 && r.Workflow == "order"
	})
	found(journal.Query{Phases: open, CreatedBefore: at(40)}, func(r *journal.RunRow) bool {
		return r.EndedAt == 0 && r.CreatedAt < at(40)
	})
	found(journal.Query{Workflow: "order", Phases: []core.RunPhase{core.RunSucceeded, core.RunWaiting}},
		func(r *journal.RunRow) bool { return r.Workflow == "order" })

	// A step that ends is no longer retried, and a run that ends has no deadline to miss.
	v.Steps = nil
	for n := range v.Runs[:40] {
		r := &v.Runs[n]
		for _, s := range retried(r.ID, n) {
			s.Phase, s.EndedAt = core.StepSucceeded, at(90)
			v.Steps = append(v.Steps, s)
		}
		if r.Retrying = false; n%2 == 0 {
			r.Phase, r.EndedAt, r.Wake = core.RunFailed, at(95), 0
		}
	}
	f.append(v)
	found(journal.Query{Retrying: true}, func(r *journal.RunRow) bool { return r.Retrying })
	found(journal.Query{ByDeadline: true}, radar)
	found(journal.Query{}, func(*journal.RunRow) bool { return true })
}

// viewToSearch returns a view with runs of all sorts.
func viewToSearch() *journal.View {
	v := &journal.View{}
	for n := range 80 {
		r := row(n)
		r.Deadline = [...]core.Time{0, at(500 - n), at(300), at(n)}[n%4]
		r.Phase, r.EndedAt, r.Parent = core.RunWaiting, 0, core.RunID{}
		switch {
		case n%5 == 0:
			r.Phase, r.EndedAt, r.Wake = core.RunSucceeded, at(n+1), 0
		case n%7 == 0:
			r.Wake = journal.WakeSetAside
		}
		r.Workflow = []string{"audit", "order"}[n%2]
		r.Retrying = n%3 != 1 && r.EndedAt == 0 && r.Wake != journal.WakeSetAside
		v.Runs = append(v.Runs, r)
		v.Steps = append(v.Steps, retried(r.ID, n)...)
	}
	return v
}

// retried returns the steps of a run: two that are retried, one that backs off, or others.
func retried(run core.RunID, n int) []journal.StepRow {
	switch n % 3 {
	case 0:
		return []journal.StepRow{
			{Run: run, Name: "a", Phase: core.StepRunning, Attempt: 2},
			{Run: run, Step: 1, Name: "b", Phase: core.StepScheduled, Attempt: 3},
		}
	case 1:
		return []journal.StepRow{
			{Run: run, Name: "a", Phase: core.StepRunning, Attempt: 1},
			{Run: run, Step: 1, Name: "b", Phase: core.StepFailed, Attempt: 3, EndedAt: at(n)},
		}
	default:
		return []journal.StepRow{{Run: run, Name: "a", Phase: core.StepBackingOff, Attempt: 1, NextAt: at(n + 50)}}
	}
}

// sorted returns rows in the order of a query.
func sorted(rows []journal.RunRow, q *journal.Query) []journal.RunRow {
	slices.SortFunc(rows, q.Order)
	return rows
}
