package service

import (
	"cmp"
	"context"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/trail"
)

// mostDeep is how many runs below one another are looked at for what can end the one at the top.
const mostDeep = 4

// known returns what is known about a run besides its history. queued: it waits in its queue.
func (r *reads) known(ctx context.Context, id core.RunID, queued bool, plan []api.PlannedStep) trail.Known {
	k := trail.Known{Plan: plan, Unserved: r.unserved, Child: r.child(ctx, mostDeep)}
	if r.problems != nil {
		if problem := r.problems()[id]; problem != nil {
			k.Problem = problem.Error()
		}
	}
	if r.line != nil && queued {
		if line, waits := r.line(ctx, id); waits {
			k.Line = &line
		}
	}
	return k
}

// child returns a function that names a child run and lists what can end it, from its row. Each child is read once.
func (r *reads) child(ctx context.Context, deep int) func(core.RunID) (string, []api.End) {
	type answer struct {
		name string
		ends []api.End
	}
	answers := map[core.RunID]answer{}
	return func(id core.RunID) (string, []api.End) {
		a, asked := answers[id]
		if !asked {
			a.name, a.ends = r.readChild(ctx, id, deep)
			answers[id] = a
		}
		return a.name, a.ends
	}
}

func (r *reads) readChild(ctx context.Context, id core.RunID, deep int) (name string, ends []api.End) {
	after := id // the newest run up to this one is the first one after its successor
	for i := len(after) - 1; i >= 0; i-- {
		if after[i]++; after[i] != 0 {
			break
		}
	}
	page, err := r.src.List(ctx, journal.Query{After: after, Limit: 1})
	if err != nil || len(page.Runs) == 0 || page.Runs[0].ID != id {
		return "", nil
	}
	row := &page.Runs[0]
	name = cmp.Or(row.WorkflowID, row.Workflow)
	told, ok := r.toldOf(ctx, row)
	if !ok || row.Phase.Closed() {
		return name, nil
	}
	k := trail.Known{}
	if deep > 1 {
		k.Child = r.child(ctx, deep-1)
	}
	return name, told.Read(&k, r.now()).Ends
}

// toldOf returns the words of a run from its row. If the row has none, or those of another version, the history is
// folded.
func (r *reads) toldOf(ctx context.Context, row *journal.RunRow) (*trail.Told, bool) {
	if told, ok := engine.ReadTold(row); ok {
		return told, true
	}
	if setAside(row) {
		return nil, false
	}
	var told *trail.Told
	err := r.with(ctx, row.ID.String(), row.ID, func(f *followed) error {
		told = f.trail.Tell()
		return nil
	})
	return told, err == nil
}

// setAside reports whether the run's state cannot be read: its row alone tells why.
func setAside(row *journal.RunRow) bool {
	return row.Wake == journal.WakeSetAside && !row.Phase.Closed()
}

// tell writes what a run tells now into its summary: the same as its page.
func (r *reads) tell(ctx context.Context, row *journal.RunRow, to *api.RunSummary) {
	var plan []api.PlannedStep
	if !row.Phase.Closed() {
		if k, err := r.workflows.get(ctx, row.Definition); err == nil {
			plan = k.workflow.Plan
		}
	}
	known := r.known(ctx, row.ID, row.Phase == core.RunPending, plan)
	if setAside(row) {
		known.Problem = row.Message
	}
	told, ok := r.toldOf(ctx, row)
	if !ok {
		told = trail.Unknown(row.Phase)
	}
	told.Read(&known, r.now()).Into(to)
}
