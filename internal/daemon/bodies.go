package daemon

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/service"
)

// plugins returns the kinds of workflows of the daemon. Among them is the keeper that leases the runs of Go workflows
// to processes that have their code, if it was asked for.
func (d *Daemon) plugins() []kind.Plugin {
	if !d.cfg.Bodies {
		return d.cfg.Plugins
	}
	d.bodies = lease.NewKeeper(lease.KeeperConfig{Now: d.now, Documents: d.cfg.Journal, Log: d.cfg.Log})
	return append(slices.Clip(d.cfg.Plugins), d.bodies)
}

// read makes a stored definition ready. Workflows that processes serve can be started.
func (d *Daemon) read(stored journal.Definition) (*service.Prepared, error) {
	w, err := d.cfg.Read(stored)
	if err == nil && d.bodies != nil && kind.TraitsOf(stored.Kind).Served {
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
