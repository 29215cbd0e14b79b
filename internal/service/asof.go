package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/trail"
)

func (r *reads) RunAt(ctx context.Context, name string, event int) (out *api.Run, err error) {
	entries, k, err := r.recorded(ctx, name)
	if err != nil {
		return nil, err
	}
	f := &followed{id: entries[0].Run, kind: k.kind, workflow: k.workflow}
	err = f.locked(func() error {
		out, err = f.asOf(entries, event, r.shared)
		return err
	})
	if err != nil {
		return nil, wrap(err)
	}
	return out, nil
}

// asOf folds the entries up to the one to which an event belongs.
func (f *followed) asOf(entries []core.Entry, event int, shared bool) (*api.Run, error) {
	f.trail = trail.New(f.id, f.workflow.Definition)
	f.trail.Shared, f.trail.Known.Plan = shared, f.workflow.Plan
	if words := f.workflow.Words; words != nil {
		f.trail.Words = words.Step
	}
	for _, e := range entries {
		events := f.trail.Fold(e)
		if len(events) == 0 || f.trail.Events() < event {
			continue
		}
		out := f.trail.Snapshot(e.At)
		last := f.told(events[len(events)-1])
		out.Kind, out.AsOf = f.kind, &last
		return out, nil
	}
	return nil, invalid(nil, "the run has %d events so far, and none with the number %d", f.trail.Events(), event)
}
