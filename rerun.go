package pawl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/engine"
)

// RestartRun starts a new run with the input of another one, with fresh deadlines, and returns its id.
func (e *Engine) RestartRun(ctx context.Context, id string, opts ...StartOption) (string, error) {
	r, err := e.inspect(ctx, id)
	if err != nil {
		return "", err
	}
	return e.startLike(ctx, r, nil, opts)
}

// RerunSteps starts a new run with the input of another one that has ended. It makes the named steps again, and those that
// did not succeed; the results of all others are taken over. A name stands for its repetitions, too.
func (e *Engine) RerunSteps(ctx context.Context, id string, steps []string, opts ...StartOption) (string, error) {
	r, err := e.inspect(ctx, id)
	if err != nil {
		return "", err
	}
	if !r.Phase.Closed() {
		return "", fmt.Errorf("pawl: rerun: run %s is %s: cancel it, or wait until it has ended", r.ID, r.Phase)
	}
	known := map[string]bool{}
	var keep []core.Kept
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Dropped || s.Spec.Hook {
			continue
		}
		base, _, _ := strings.Cut(s.Spec.Name[strings.LastIndexByte(s.Spec.Name, '/')+1:], "#")
		known[base], known[s.Spec.Name] = true, true
		if s.Phase == core.StepSucceeded && !slices.Contains(steps, base) && !slices.Contains(steps, s.Spec.Name) {
			keep = append(keep, core.Kept{Def: -1, Spec: s.Spec, Name: s.Spec.Name, Item: -1, Phase: s.Phase, Output: s.Output})
		}
	}
	for _, name := range steps {
		if !known[name] {
			return "", fmt.Errorf("pawl: rerun: run %s has no step %q: %w", r.ID, name, ErrNotFound)
		}
	}
	return e.startLike(ctx, r, keep, opts)
}

func (e *Engine) inspect(ctx context.Context, id string) (*core.Run, error) {
	run, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.engine.Inspect(ctx, run)
}

// startLike starts a run with another's input, under the same workflow id where that is free.
func (e *Engine) startLike(ctx context.Context, r *core.Run, keep []core.Kept, opts []StartOption) (string, error) {
	req := StartRequest{Workflow: r.Workflow, ID: r.WorkflowID, Input: r.Input}
	for _, opt := range opts {
		opt(&req)
	}
	started, err := e.startRun(ctx, req, func(r *engine.StartRequest) { r.Keep = keep })
	return started.ID, err
}
