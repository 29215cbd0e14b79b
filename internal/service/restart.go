package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// GivenTimeout is the origin of a run limit that the caller gave at the start. A restart uses that limit again. All
// other limits come from the workflow.
const GivenTimeout = "--timeout"

// Restart implements api.Service.
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
	d, err := s.src.Definition(ctx, run.Definition)
	if err != nil {
		return engine.StartRequest{}, err
	}
	req, err := begin(f.workflow, d, run.Input)
	if err != nil {
		return req, err
	}
	req.Input = run.Input
	if l := run.Deadline; l.Origin == GivenTimeout && l.After > 0 {
		req.Run = &policy.Limit{After: l.After, Origin: l.Origin}
	}
	req.WorkflowID, req.Actor, req.Reason = run.WorkflowID, r.Actor, r.Reason
	if req.Reason == "" {
		req.Reason = "as run " + run.ID.String()
	}
	req.Labels, req.Headers = run.Labels, run.Headers
	req.Firing, req.Zone = run.Firing, run.Zone
	if run.Admission != nil {
		req.Queue = run.Admission.Queue
	}
	req.Keep, err = kept(f, r)
	return req, err
}

// kept chooses the results that the new run takes from the earlier one.
func kept(f *followed, r api.RestartRequest) ([]core.Kept, error) {
	steps := r.Steps
	switch {
	case r.From != "" && len(steps) > 0:
		return nil, invalid(nil, "say which steps run again: from one of them, or these only, not both")
	case r.From != "":
		steps = []string{r.From}
	case len(steps) == 0:
		return nil, nil
	}
	if f.workflow.Rerun == nil {
		return nil, invalid(nil, "of workflow %q no single steps can run again", f.trail.Run.Workflow)
	}
	keep, err := f.workflow.Rerun(f.trail.Run, steps, r.From != "")
	if coded := new(api.Error); err != nil && !errors.As(err, &coded) {
		return nil, invalid(err, "%v", err)
	}
	return keep, err
}

// Repeatable returns why a new run like this one cannot be started now; nil: it can.
func Repeatable(r *api.Run) error {
	if r.Phase.Closed() || r.WorkflowID == "" {
		return nil
	}
	return &api.Error{Code: api.CodeConflict, Message: fmt.Sprintf(
		"run %s is still open under the workflow id %q: cancel it first, then start it again",
		r.Run[:sharedPrefix], r.WorkflowID)}
}
