package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// GivenTimeout is the origin of a run limit that the caller gave at the start. A restart uses that limit again. All
// other limits come from the workflow.
const GivenTimeout = "--timeout"

func (s *Embedded) Restart(ctx context.Context, name string, r api.RestartRequest) (api.Started, error) {
	id, err := s.find(ctx, name)
	if err != nil {
		return api.Started{}, err
	}
	var req engine.StartRequest
	err = s.with(ctx, name, id, func(f *followed) error {
		req, err = s.again(ctx, f, r)
		return err
	})
	if err != nil {
		return api.Started{}, err
	}
	return s.start(ctx, req)
}

// again makes the request for a run like an earlier one: the same workflow, the same input, new deadlines.
func (s *Embedded) again(ctx context.Context, f *followed, r api.RestartRequest) (engine.StartRequest, error) {
	run := f.trail.Run
	if err := Repeatable(f.trail.Snapshot(s.now())); err != nil {
		return engine.StartRequest{}, err
	}
	other, some := r.Definition != nil || r.Input != nil, r.Failed || r.From != "" || len(r.Steps) > 0
	if other && !some {
		return engine.StartRequest{}, invalid(nil, "with another text or another input say which steps run again: "+
			"from one of them, some of them, or those that failed")
	}
	w, d, err := s.textOf(ctx, f, r.Definition)
	if err != nil {
		return engine.StartRequest{}, err
	}
	input := run.Input
	if r.Input != nil {
		input = r.Input
	}
	begun, err := begin(w, d, input)
	if err != nil {
		return engine.StartRequest{}, err
	}
	req := engine.StartRequest{Definition: d, Start: begun}
	if r.Input == nil && r.Definition == nil {
		req.Input = run.Input
	}
	if l := run.Deadline; l.Origin == GivenTimeout && l.After > 0 {
		req.Run = &policy.Limit{After: l.After, Origin: l.Origin}
	}
	req.WorkflowID, req.Actor, req.Reason = run.WorkflowID, r.Actor, r.Reason
	if req.Reason == "" {
		req.Reason = "as run " + run.ID.String()
		if r.Failed {
			req.Reason = "goes on from run " + run.ID.String()
		}
	}
	req.Labels, req.Headers = run.Labels, run.Headers
	req.Firing, req.Zone = run.Firing, run.Zone
	if run.Admission != nil {
		req.Queue = run.Admission.Queue
	}
	if r.Failed {
		if err := refusesFailed(run, r); err != nil {
			return engine.StartRequest{}, err
		}
	}
	if other {
		req.Keep, err = s.goesOn(f, w, r, req.Input)
	} else {
		req.Keep, err = kept(f, r)
	}
	return req, err
}

// textOf returns the workflow for a run like an earlier one: another text, or the earlier run's.
func (s *Embedded) textOf(ctx context.Context, f *followed, given *api.Definition) (
	*Prepared, journal.Definition, error,
) {
	if given == nil {
		d, err := s.src.Definition(ctx, f.trail.Run.Definition)
		return f.workflow, d, err
	}
	d, err := Definition(*given)
	if err != nil {
		return nil, d, err
	}
	k, err := s.workflows.given(d)
	switch {
	case err != nil:
		return nil, d, invalid(err, "%v", err)
	case d.Name != f.trail.Run.Workflow:
		return nil, d, invalid(nil, "the run is of workflow %q, and the text is of %q", f.trail.Run.Workflow, d.Name)
	}
	return k.workflow, d, nil
}

// goesOn chooses the results that a run takes from one of which some steps failed, or with another text or input.
func (s *Embedded) goesOn(f *followed, w *Prepared, r api.RestartRequest, input []byte) ([]core.Kept, error) {
	run := f.trail.Run
	switch {
	case w.Continue == nil || f.workflow.Text == nil:
		return nil, invalid(nil, "of workflow %q only its own program can go on with another text or input",
			run.Workflow)
	case !run.Phase.Closed():
		return nil, &api.Error{Code: api.CodeConflict, Message: fmt.Sprintf(
			"run %s is still open: cancel it, or wait until it has ended", run.ID.String()[:sharedPrefix])}
	}
	steps, err := named(r)
	if err != nil {
		return nil, err
	}
	keep, err := w.Continue(run, f.workflow.Text, input, steps, r.From != "")
	if coded := new(api.Error); err != nil && !errors.As(err, &coded) {
		return nil, &api.Error{Code: api.CodeConflict, Message: err.Error(), Err: err}
	}
	return keep, err
}

// refusesFailed returns why no new run can make again what failed in an earlier one, or nil if one can.
func refusesFailed(run *core.Run, r api.RestartRequest) error {
	if r.From != "" || len(r.Steps) > 0 {
		return invalid(nil, "say which steps run again, or that the failed ones do, not both")
	}
	if err := core.RefusesFailed(run); err != nil {
		return wrap(err)
	}
	return nil
}

// named returns the steps that run again.
func named(r api.RestartRequest) ([]string, error) {
	switch {
	case r.From != "" && len(r.Steps) > 0:
		return nil, invalid(nil, "say which steps run again: from one of them, or these only, not both")
	case r.From != "":
		return []string{r.From}, nil
	default:
		return r.Steps, nil
	}
}

// kept chooses the results that the new run takes from the earlier one.
func kept(f *followed, r api.RestartRequest) ([]core.Kept, error) {
	steps, err := named(r)
	if err != nil || len(steps) == 0 && !r.Failed {
		return nil, err
	}
	if f.workflow.Rerun == nil {
		return nil, invalid(nil, "of workflow %q no single steps can run again", f.trail.Run.Workflow)
	}
	keep, err := f.workflow.Rerun(f.trail.Run, steps, r.Failed || r.From != "")
	if coded := new(api.Error); err != nil && !errors.As(err, &coded) {
		return nil, invalid(err, "%v", err)
	}
	return keep, err
}

// Repeatable returns why a new run like this one cannot be started now, or nil if it can.
func Repeatable(r *api.Run) error {
	if r.Phase.Closed() || r.WorkflowID == "" {
		return nil
	}
	return &api.Error{Code: api.CodeConflict, Message: fmt.Sprintf(
		"run %s is still open under the workflow id %q: cancel it first, then start it again",
		r.Run[:sharedPrefix], r.WorkflowID)}
}
