package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
)

// readWorkflow makes a stored definition ready to be looked at, also one of a Go program.
func (a *app) readWorkflow(d journal.Definition) (*service.Workflow, error) {
	c, err := a.stored(d)
	if err != nil {
		return nil, err
	}
	w := &service.Workflow{Definition: c.def, Plan: c.steps(), Words: wordsOf(c)}
	if c.flow == nil {
		return w, nil
	}
	w.Begin = c.doc.Start
	w.Rerun = func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error) {
		return flow.Rerun(c.doc, earlier, steps, from)
	}
	return w, nil
}

// carriedHere refuses what only a Go program can carry on: its own runs, and those whose end one of these waits for, a
// parent or a schedule. That one could not be told here, so the engine sets such a run aside as well.
func (a *app) carriedHere(ctx context.Context, svc api.Service, r *api.Run) error {
	c, err := a.definitionOf(ctx, svc, r.Definition)
	if err != nil {
		return err
	}
	if err := c.readOnly(); err != nil {
		return err
	}
	for _, name := range []string{r.Parent, r.Notify} {
		if name == "" {
			continue
		}
		waits, err := svc.Run(ctx, name)
		if err == nil {
			err = a.carriedHere(ctx, svc, waits)
		}
		if errors.As(err, new(*readOnlyError)) {
			return fmt.Errorf("run %s waits for the end of run %s: %w", live.Short(waits.Run), live.Short(r.Run), err)
		}
	}
	return nil
}

// definitionOf reads a stored workflow.
func (a *app) definitionOf(ctx context.Context, svc api.Service, id string) (*compiled, error) {
	d, err := svc.Definition(ctx, id)
	if err != nil {
		return nil, err
	}
	stored, err := service.Definition(d)
	if err != nil {
		return nil, err
	}
	return a.stored(stored)
}
