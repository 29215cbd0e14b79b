package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// drainWithin is how long tasks may take to reach the workers that have asked for them, when the engine closes.
const drainWithin = time.Second

// Drain reports that the daemon is not ready, and answers all other requests, until the balancer has had the given time
// to see that, or the engine ends.
func (d *Daemon) Drain(within time.Duration) {
	d.server.Drain()
	select {
	case <-time.After(within):
	case <-d.Done():
	}
}

// Shutdown answers the open requests until ctx ends, and then closes the daemon. Streams are cut.
func (d *Daemon) Shutdown(ctx context.Context) error {
	d.drainPlugins()
	for _, one := range d.all() { // workers that wait are answered, so that their requests do not hold up the end
		if one.queues != nil {
			one.queues.Drain(ctx)
		}
	}
	err := d.Leave(ctx)
	for _, p := range d.protocols() {
		if ended := p.Shutdown(ctx); ended != nil && !errors.Is(ended, context.DeadlineExceeded) {
			err = errors.Join(err, ended)
		}
	}
	return errors.Join(err, d.Close())
}

// all returns the daemons of all namespaces.
func (d *Daemon) all() []*Daemon { return slices.AppendSeq([]*Daemon{d}, maps.Values(d.namespaces)) }

// drainPlugins answers the waiting callers of kinds of workflows, such as processes that serve some.
func (d *Daemon) drainPlugins() {
	if d.node != nil {
		d.node.DrainPlugins()
	}
}

// protocols returns the protocols in use, each once.
func (d *Daemon) protocols() []Protocol {
	var all []Protocol
	if d.server != nil {
		all = append(all, d.server)
	}
	for _, one := range d.listening {
		if !slices.Contains(all, one.protocol) {
			all = append(all, one.protocol)
		}
	}
	return all
}

// Leave gives the partitions of this process to the other nodes of its cluster, if it is in one.
func (d *Daemon) Leave(ctx context.Context) error {
	if d.cfg.Cluster == nil {
		return nil
	}
	var left errgroup.Group
	for _, one := range d.all() {
		left.Go(func() error { return one.cfg.Cluster.Node.Leave(ctx) })
	}
	return left.Wait()
}

// Close stops the workers, then the engine, then the journal. Interrupted attempts are repeated when the runs are
// carried on. The socket is closed first: a command that does not find it, while the database is held, waits a little.
func (d *Daemon) Close() error {
	if d.schedules != nil {
		d.schedules.Close()
	}
	if d.sweeping != nil {
		d.sweeping()
		<-d.swept
	}
	var err error
	if d.cfg.Cluster != nil {
		err = d.cfg.Cluster.Node.Stop()
	}
	d.drainPlugins()
	if d.queues != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
		d.queues.Drain(ctx)
		cancel()
	}
	err = errors.Join(err, d.hangUp())
	for name, in := range d.namespaces {
		if ended := in.Close(); ended != nil {
			err = errors.Join(err, fmt.Errorf("the namespace %s: %w", name, ended))
		}
	}
	if d.access != nil && d.cfg.Access == nil { // no caller is left, and the journal is open
		err = errors.Join(err, d.access.Close())
	}
	if d.keeping != nil {
		d.keeping()
		d.kept.Wait()
	}
	if d.changes != nil {
		d.changes.Close()
	}
	if d.webhooks != nil {
		d.webhooks.Close()
	}
	return errors.Join(err, d.closeNode())
}

// hangUp cuts all connections.
func (d *Daemon) hangUp() error {
	var err error
	for _, p := range d.protocols() {
		err = errors.Join(err, p.Close())
	}
	for _, one := range d.listening {
		<-one.ended
	}
	d.listening = nil
	return err
}

// closeNode closes the engine and the database, and the parts that wait for the engine's last records.
func (d *Daemon) closeNode() error {
	if d.program != nil {
		if d.program.Close == nil {
			return nil
		}
		return d.program.Close()
	}
	err := d.node.Close()
	if d.queues != nil {
		d.queues.Close()
	}
	return err
}
