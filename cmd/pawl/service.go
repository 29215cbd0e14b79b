package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
)

// readWorkflow makes a stored definition ready to be shown, also that of a Go program.
func (a *app) readWorkflow(d journal.Definition) (*service.Prepared, error) {
	w, err := a.flows.Read(d)
	return w, unreadable(err)
}

// stored reads a stored definition to show a run of it, which may be a Go program's.
func (a *app) stored(d journal.Definition) (*compiled, error) {
	w, err := a.flows.Get(d)
	return w, unreadable(err)
}

// unreadable makes the error of a definition one of usage, unless the database is damaged.
func unreadable(err error) error {
	if errors.Is(err, journal.ErrCorrupt) {
		return err
	}
	return asUsage(err)
}

// carriedHere refuses runs that only a Go program can carry on: its own runs, and those whose end one of these waits
// for, a parent or a schedule. Their end could not be reported to it here, so the engine sets such a run aside as well.
func (a *app) carriedHere(ctx context.Context, svc api.Service, r *api.Run) error {
	c, err := a.definitionOf(ctx, svc, r.Definition)
	if err != nil {
		return err
	}
	if err := c.ReadOnly(); err != nil {
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
		if errors.As(err, new(*workflows.ReadOnlyError)) {
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

// logsOf returns what reads the logs of a service's attempts. The process that holds a file executes on this machine,
// so its logs are beside the file.
func (a *app) logsOf(svc api.Service) (api.LogReader, error) {
	if a.server != "" {
		return a.connect()
	}
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	return daemon.Logs{Dir: p.LogDir(), Service: svc}, nil
}
