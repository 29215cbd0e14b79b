package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Open starts what the daemon does. ctx bounds the opening only. Call Close after an error, too.
func (d *Daemon) Open(ctx context.Context) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	if err := d.join(ctx); err != nil {
		return err
	}
	d.keepSchedules(ctx)
	return nil
}

// keepSchedules gives the flows of the folder their schedules, until the daemon closes.
func (d *Daemon) keepSchedules(ctx context.Context) {
	if d.cfg.Files == nil || d.cfg.Compiled == nil || !d.cfg.Work {
		return
	}
	tell := d.cfg.Scheduled
	if tell == nil {
		tell = func(string) {}
	}
	d.schedules = scheduled.Keep(ctx, scheduled.Config{
		Service: d.svc, Read: d.cfg.Compiled, Files: d.cfg.Files, Tell: tell,
		Now: func() time.Time { return d.now().Std() },
	})
}

// open starts the node and its service, without the other nodes of a cluster.
func (d *Daemon) open(ctx context.Context) error {
	if d.program != nil {
		return nil // it is open
	}
	if d.cfg.Work {
		if err := d.work(); err != nil {
			return err
		}
	}
	if err := d.openNode(ctx); err != nil {
		return err
	}
	if d.cfg.Work {
		var err error
		if d.webhooks, err = d.OpenWebhooks(ctx); err != nil {
			return err
		}
		d.changes = d.embedded.Changes(d.engine, d.cfg.Warnings)
		d.serve()
		d.keepMinutes()
	}
	if d.cfg.Retention > 0 {
		d.sweep()
	}
	return nil
}

// afterLease is how long Open waits after the end of a lease: the owner's last sign of life may be on its way.
const afterLease = time.Second

// openNode opens the node. If a killed process may still own the partitions, it waits until that one's lease has ended:
// an owner that is alive renews it meanwhile.
func (d *Daemon) openNode(ctx context.Context) error {
	err := d.node.Open(ctx)
	held := new(journal.HeldError)
	if !errors.As(err, &held) || held.Term == 0 || d.cfg.Held == nil {
		return err
	}
	if refused := d.cfg.Held(ctx, held); refused != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(ctx, held.Term+afterLease)
	defer cancel()
	return journal.WhileHeld(ctx, func() error { return d.node.Open(ctx) }, func(error) {})
}

// work gives the node its workers: those of this process, and those that ask for tasks.
func (d *Daemon) work() error {
	executors := d.node.Executors()
	pool := worker.PoolConfig{Executors: executors, Slots: map[string]int{"exec": d.cfg.Slots}}
	if d.cfg.Clock != nil {
		pool.Now, pool.Stands = d.cfg.Clock.Now, true
	}
	err := d.node.Serve(pool)
	d.queues = remote.New(remote.Config{
		Engine: d.engine, Run: d.svc.Run, Now: d.now, Stands: d.cfg.Clock != nil, Trace: d.cfg.Processes.Trace,
		Own: slices.AppendSeq(body.OwnTypes(), maps.Keys(executors)),
	})
	d.engine.ServeRemote("", d.queues)
	if d.bodies != nil {
		d.engine.ServePlaced("", d.bodies)
	}
	return err
}

// join answers the other nodes, and makes this one take its share.
func (d *Daemon) join(ctx context.Context) error {
	c := d.cfg.Cluster
	switch {
	case c == nil:
		return nil
	case c.Listener == nil:
		if err := c.Node.Enter(ctx, d.engine); err != nil {
			return err
		}
	default:
		if err := c.Node.Join(ctx, c.Listener, d.engine, d.server.ForNodes()); err != nil {
			return err
		}
	}
	if d.cfg.Metrics != nil {
		owned := func() int { return len(d.engine.Owned()) }
		d.cfg.Metrics.ReadCluster(d.engine.PartitionCount(), owned, c.Node.Member().Moves)
	}
	return nil
}
