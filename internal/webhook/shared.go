package webhook

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// Shared is how the processes that work on one journal share its webhooks. Each sends the messages that its own runs
// cause, and keeps the webhooks that it has read in memory: the documents are authoritative.
type Shared struct {
	// Has reports whether this process has a run.
	Has func(run core.RunID) bool
	// Changed tells the other processes to call Refresh, and waits for those that answer soon.
	Changed func(ctx context.Context)
}

// refreshEvery is how often a process reads again what the others may have changed, in case it was not notified.
const refreshEvery = time.Minute

// owns reports whether this process sends a delivery.
func (d *Dispatcher) owns(id string) bool {
	if d.cfg.Shared == nil {
		return true
	}
	var run core.RunID
	if runOf(id) == ofNoRun {
		return d.cfg.Shared.Has(run) // one process sends what no run has caused
	}
	if n, err := hex.Decode(run[:], []byte(runOf(id))); err != nil || n != len(run) {
		return true // a test, which ends with its first attempt
	}
	return d.cfg.Shared.Has(run)
}

func (d *Dispatcher) tellOthers(ctx context.Context) {
	if d.cfg.Shared != nil {
		d.cfg.Shared.Changed(ctx)
	}
}

// Refresh reads what another process has changed: webhooks, and deliveries that it replayed.
func (d *Dispatcher) Refresh(ctx context.Context) error {
	d.adding.Lock()
	defer d.adding.Unlock()
	return d.refresh(ctx)
}

// refresh does the work of Refresh; the caller holds adding.
func (d *Dispatcher) refresh(ctx context.Context) error {
	d.change.Lock()
	err := d.load(ctx)
	d.change.Unlock()
	if err != nil || d.ctx.Err() != nil {
		return err
	}
	d.mu.Lock()
	some := len(d.targets) > 0
	d.mu.Unlock()
	switch {
	case some && d.feeding == nil:
		if err := d.beginFeed(ctx); err != nil {
			return err
		}
		d.readFeed()
	case !some && d.feeding != nil:
		return d.dropFeed(ctx)
	}
	return nil
}

// lookAgain reads what others have changed, unless webhooks are being changed here at this moment.
func (d *Dispatcher) lookAgain() {
	if !d.adding.TryLock() {
		return
	}
	defer d.adding.Unlock()
	if err := d.refresh(d.ctx); err != nil && d.ctx.Err() == nil {
		d.cfg.Log.Error("webhooks cannot be read again at present", "id", "webhooks-unreadable", "error", err)
	}
}

// adopt reads the pending deliveries of runs that have come from another process.
func (d *Dispatcher) adopt(ctx context.Context) error {
	d.change.Lock()
	defer d.change.Unlock()
	return d.loadPending(ctx)
}

// drop forgets the deliveries of a run that another process has now. It is called while mu is held, and the line is not
// in the heap.
func (t *target) drop(l *line) {
	t.pending -= len(l.ids)
	delete(t.lines, l.run)
}
