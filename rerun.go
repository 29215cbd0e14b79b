package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// RerunSteps as an option of [Client].RestartRun runs only these steps again, and those that did not succeed. The
// results of all others are kept. A name includes its repetitions: "charge" for "charge#2".
func RerunSteps(names ...string) StartOption {
	return func(r *client.StartRequest) { r.Steps = append(r.Steps, names...) }
}

// RerunFrom as an option of [Client].RestartRun keeps the results of the steps that began before the step with that
// key; in a flow, of those that do not need that step.
func RerunFrom(step string) StartOption { return func(r *client.StartRequest) { r.From = step } }

// RestartRun starts a new run with the input of another one, with fresh deadlines, and returns its id.
func (e *Engine) RestartRun(ctx context.Context, id string, opts ...StartOption) (string, error) {
	r, err := e.inspect(ctx, id)
	if err != nil {
		return "", err
	}
	req := client.StartRequest{
		Workflow: r.Workflow, ID: r.WorkflowID, Input: r.Input, Labels: r.Labels.Map(), Headers: r.Headers.Map(),
	}
	if r.Admission != nil {
		q := r.Admission.Queue
		req.Queue, req.QueueKey, req.Priority = q.Name, q.Key, q.Priority
	}
	for _, opt := range opts {
		opt(&req)
	}
	steps, from := req.Steps, req.From
	req.Steps, req.From = nil, ""
	started, err := e.startRun(ctx, req, func(req *engine.StartRequest) error {
		if len(steps) == 0 && from == "" {
			return nil
		}
		var err error
		req.Keep, err = e.kept(r, steps, from)
		return err
	})
	return started.ID, err
}

// kept returns the results that a rerun keeps.
func (e *Engine) kept(r *core.Run, steps []string, from string) ([]core.Kept, error) {
	if !r.Phase.Closed() {
		return nil, fmt.Errorf("pawl: rerun: run %s is %s: cancel it, or wait until it has ended: %w",
			r.ID, r.Phase, ErrConflict)
	}
	if len(steps) > 0 && from != "" {
		return nil, invalid(errors.New("name the steps, or the one from which on"), "rerun")
	}
	if from != "" {
		steps = []string{from}
	}
	d := e.host.definition(r.Workflow)
	if d.document == nil {
		return body.Rerun(r, steps, from != "")
	}
	keep, err := d.document.Rerun(r, steps, from != "")
	if err != nil {
		return nil, fmt.Errorf("pawl: rerun: run %s: %w: %w", r.ID, err, ErrNotFound)
	}
	return keep, nil
}

func noStep(op string, run core.RunID, name string) error {
	return fmt.Errorf("pawl: %s: run %s has no step %q: %w", op, run, name, ErrNotFound)
}

func (e *Engine) inspect(ctx context.Context, id string) (*core.Run, error) {
	return onRun(ctx, e, id, func(run core.RunID) (*core.Run, error) { return e.engine.Inspect(ctx, run) })
}
