package daemon

import (
	"context"
	"errors"
	"fmt"
)

// Add opens the daemon of a further namespace, with its own engine, workers' queues and webhooks, and makes it
// reachable for requests of this one. Both have the tokens of this one. If it fails, it closes the database of cfg.
func (d *Daemon) Add(ctx context.Context, cfg Config) error {
	cfg.Access = d.access
	in, err := New(cfg)
	if err != nil {
		return err
	}
	if err := in.open(ctx); err != nil {
		return errors.Join(err, in.Close())
	}
	d.server.AddNamespace(in.server)
	if err := in.join(ctx); err != nil {
		return errors.Join(err, in.Close())
	}
	in.keepSchedules(ctx)
	d.namespaces[cfg.Namespace] = in
	go func() {
		<-in.Done()
		d.tellEnd(fmt.Errorf("the namespace %s: %w\nWhat was acknowledged is safe; start it again", cfg.Namespace,
			in.Err()))
	}()
	return nil
}
