package daemon

import (
	"context"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/webhook"
)

// OpenWebhooks returns the webhooks of the database. The caller closes them.
func (d *Daemon) OpenWebhooks(ctx context.Context) (*webhook.Dispatcher, error) {
	cfg := webhook.Config{
		Documents: d.cfg.Journal, Feed: d.engine, Describer: d.embedded.Describer, Send: d.cfg.Webhooks.Send,
		Allow: d.cfg.Webhooks.Allow, Log: d.cfg.Warnings, Now: d.now,
	}
	if d.cfg.Cluster == nil {
		return webhook.New(ctx, cfg)
	}
	node := d.cfg.Cluster.Node
	cfg.Shared = &webhook.Shared{ // each node sends what its own runs cause
		Has:     func(run core.RunID) bool { return d.engine.Runs(d.engine.PartitionOf(run)) },
		Changed: node.TellWebhooks,
	}
	hooks, err := webhook.New(ctx, cfg)
	if err == nil {
		node.OnWebhooks(hooks.Refresh)
	}
	return hooks, err
}
