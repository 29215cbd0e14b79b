package daemon

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

// lend makes the keeper by which the daemon leases the runs of Go workflows to processes that have their code, if it is
// to do so.
func (d *Daemon) lend(cfg *engine.Config) error {
	if !d.cfg.Bodies {
		return nil
	}
	d.bodies = lease.NewKeeper(lease.KeeperConfig{Now: d.now, Documents: d.cfg.Journal, Log: d.cfg.Log})
	cfg.Kinds[journal.KindGo] = engine.Kind{
		Compile: d.bodies.Compile, Bodies: d.bodies,
		Resolve: func(_ core.DefinitionID, name string) (journal.Definition, error) { return d.bodies.Find(name) },
	}
	return d.bodies.Load(context.Background())
}

// drainBodies answers the processes that serve workflows and wait for news.
func (d *Daemon) drainBodies() {
	if d.bodies != nil {
		d.bodies.Drain()
	}
}

// read makes a stored definition ready. Workflows that processes serve can be started.
func (d *Daemon) read(stored journal.Definition) (*service.Workflow, error) {
	w, err := d.cfg.Read(stored)
	if err == nil && d.bodies != nil && stored.Kind == journal.KindGo {
		w.Begin = func(input []byte) (core.Start, error) {
			_, err := d.bodies.FindStored(stored.Name)
			return core.Start{Input: input}, err
		}
		w.Rerun = body.Rerun
	}
	return w, err
}

// allBodies returns the bodies that processes serve: those of this process, or of all nodes.
func (d *Daemon) allBodies() api.Bodies {
	if d.cfg.Cluster != nil {
		return d.cfg.Cluster.Node.Bodies(d.bodies)
	}
	return d.bodies
}

// updates sends updates to these.
func (d *Daemon) updates() api.Updates {
	own := lease.Updates{
		Keeper: d.bodies, State: d.engine.UpdateState,
		Find: func(ctx context.Context, name string) (core.RunID, error) {
			r, err := d.embedded.Run(ctx, name)
			if err != nil {
				return core.RunID{}, err
			}
			return core.ParseRunID(r.Run)
		},
	}
	if d.routed == nil {
		return own
	}
	d.routed.For(service.Local{Embedded: d.embedded, Updates: own})
	return d.routed
}
