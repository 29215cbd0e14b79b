package daemon

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/minutes"
	"github.com/pawl-dev/pawl/internal/server"
)

// countMinutes makes what counts by minute. In a cluster each node counts the runs that it has.
func (d *Daemon) countMinutes() {
	owner := ""
	if d.cfg.Cluster != nil {
		owner = d.cfg.Owner
	}
	d.minutes = minutes.New(d.cfg.Journal, owner, d.now, d.cfg.Warnings)
}

// keepMinutes stores the counts, and reports what needs a person, until the daemon closes.
func (d *Daemon) keepMinutes() {
	var ctx context.Context
	ctx, d.keeping = context.WithCancel(context.Background())
	d.kept.Go(func() { d.minutes.Keep(ctx) })
	if d.webhooks != nil {
		d.kept.Go(func() {
			d.webhooks.WatchAttention(ctx, func(ctx context.Context) (api.Attention, error) {
				return server.Attention(ctx, d.server)
			})
		})
	}
}
