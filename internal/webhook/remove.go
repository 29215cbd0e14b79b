package webhook

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/internal/journal"
)

func (d *Dispatcher) RemoveWebhook(ctx context.Context, name string) error {
	d.adding.Lock()
	defer d.adding.Unlock()
	t, err := d.find(name)
	if err != nil {
		return err
	}
	if err := d.forget(ctx, t); err != nil {
		return err
	}
	d.tellOthers(ctx)
	d.mu.Lock()
	last := len(d.targets) == 0
	d.mu.Unlock()
	if !last {
		return nil
	}
	return d.dropFeed(ctx)
}

// dropFeed ends the reading of the feed, and makes the journal keep nothing for it. It is called while adding is held.
func (d *Dispatcher) dropFeed(ctx context.Context) error {
	d.stopFeed()
	return d.cfg.Feed.DropFeed(ctx, feedName)
}

// forget deletes a webhook.
func (d *Dispatcher) forget(ctx context.Context, t *target) error {
	d.change.Lock()
	defer d.change.Unlock()
	if err := d.clear(ctx, t.hook.Name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.targets, t.hook.Name)
	return nil
}

// clear deletes the stored data of a webhook, and in the end the webhook itself. It is called while change is held.
func (d *Dispatcher) clear(ctx context.Context, name string) error {
	for _, prefix := range []string{pendingKeys + name + "/", deliveryKeys + name + "/"} {
		for {
			page, err := d.cfg.Documents.FindDocuments(ctx, prefix, after(prefix), false, pageSize)
			if err != nil {
				return storageError(err)
			}
			for i := range page {
				page[i].Value = nil
			}
			if len(page) < pageSize { // the webhook itself is deleted with its last deliveries
				if strings.HasPrefix(prefix, deliveryKeys) {
					page = append(page, journal.Document{Key: hookKey(name)})
				}
				if err := d.put(ctx, page...); err != nil {
					return err
				}
				break
			}
			if err := d.put(ctx, page...); err != nil {
				return err
			}
		}
	}
	return nil
}
