package main

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/service"
)

// bodiesOf returns the keeper by which a server leases the runs of Go workflows to processes that have their code. It
// returns nil for other commands, which do not execute such runs.
func (a *app) bodiesOf(j journal.Journal, cfg *engine.Config, now func() core.Time) (*lease.Keeper, error) {
	if a.folder == nil {
		return nil, nil
	}
	c := lease.KeeperConfig{Now: now, Documents: j}
	if a.guard != nil {
		c.Log = a.guard.log
	}
	k := lease.NewKeeper(c)
	cfg.Kinds[journal.KindGo] = engine.Kind{
		Compile: k.Compile, Bodies: k,
		Resolve: func(_ core.DefinitionID, name string) (journal.Definition, error) { return k.Find(name) },
	}
	return k, k.Load(context.Background())
}

// drainBodies answers the processes that serve workflows and wait for news.
func (m *machine) drainBodies() {
	if m.bodies != nil {
		m.bodies.Drain()
	}
}

// served finds a workflow that processes serve.
func (f *folder) served(name string) (api.Definition, bool) {
	if f.bodies == nil {
		return api.Definition{}, false
	}
	d, err := f.bodies.FindStored(name)
	return api.Definition{ID: d.ID.String(), Kind: d.Kind, Name: d.Name, Source: string(d.Source)}, err == nil
}

// readServed reads definitions as readWorkflow does. Workflows that processes serve can be started.
func (a *app) readServed(k *lease.Keeper) service.Read {
	if k == nil {
		return a.readWorkflow
	}
	return func(d journal.Definition) (*service.Workflow, error) {
		w, err := a.readWorkflow(d)
		if err == nil && d.Kind == journal.KindGo {
			w.Begin = func(input []byte) (core.Start, error) {
				_, err := k.FindStored(d.Name)
				return core.Start{Input: input}, err
			}
			w.Rerun = body.Rerun
		}
		return w, err
	}
}

// allBodies returns the bodies that processes serve: those of this process, or of all nodes.
func (m *machine) allBodies() api.Bodies {
	if m.sharing != nil {
		return m.sharing.Bodies(m.bodies)
	}
	return m.bodies
}

// updates sends updates to these.
func (m *machine) updates() api.Updates {
	own := lease.Updates{
		Keeper: m.bodies, Inspect: m.Inspect,
		Find: func(ctx context.Context, name string) (core.RunID, error) {
			r, err := m.embedded.Run(ctx, name)
			if err != nil {
				return core.RunID{}, err
			}
			return core.ParseRunID(r.Run)
		},
	}
	if all, ok := m.svc.(*service.Routed); ok {
		all.TakeUpdates(own)
		return all
	}
	return own
}
