package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// heldLong is how long an open breaker has to hold an attempt before somebody should look.
const heldLong = 20 * time.Minute

// waitsAge is how long the answer is used which attempts wait until somebody acts.
const waitsAge = 2 * time.Second

// waits knows which attempts wait until somebody acts.
type waits struct {
	flight singleflight.Group // one look at the queues, for everybody who asks meanwhile
	mu     sync.Mutex
	known  map[core.RunID]error
	until  core.Time
}

// at returns the known attempts at an instant, or those that find finds then. No caller waits longer than its context
// lasts: the partitions may be waiting for a storage that does not answer, and a check of the storage comes here, too.
func (w *waits) at(
	ctx context.Context, now core.Time, find func(context.Context) (map[core.RunID]error, error),
) (map[core.RunID]error, error) {
	w.mu.Lock()
	known, until := w.known, w.until
	w.mu.Unlock()
	if known != nil && now < until {
		return known, nil
	}
	found := w.flight.DoChan("", func() (any, error) {
		known, err := find(context.WithoutCancel(ctx))
		if err != nil {
			return known, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.known, w.until = known, now.Add(waitsAge)
		return known, nil
	})
	select {
	case r := <-found:
		return r.Val.(map[core.RunID]error), r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hasNoWorker reports whether no worker takes the tasks of a type from a queue.
func (d *Daemon) hasNoWorker(queue, taskType string) bool {
	return d.queues != nil && !d.engine.Here(queue, taskType) && !d.queues.Served(queue, taskType)
}

// waitsForSomebody returns why attempts wait until somebody acts, by run.
func (d *Daemon) waitsForSomebody(ctx context.Context) (map[core.RunID]error, error) {
	now := d.now()
	return d.waits.at(ctx, now, func(ctx context.Context) (map[core.RunID]error, error) {
		queues, err := d.engine.Queues(ctx)
		known := map[core.RunID]error{}
		for _, q := range queues {
			nobody := d.hasNoWorker(q.Queue, q.Type)
			for _, w := range q.Waits {
				if why := whyWaits(q, w, nobody, now); why != nil {
					known[w.Run] = why
				}
			}
		}
		return known, err
	})
}

// whyWaits returns why an attempt waits until somebody acts, or nil if it goes on by itself.
func whyWaits(q engine.QueueStats, w engine.Wait, nobody bool, now core.Time) error {
	switch {
	case w.Held.Reason == core.HeldBreaker && now >= w.Since.Add(heldLong):
		return fmt.Errorf("the breaker of %s has held it since %s", w.Held.Place(), w.Since)
	case w.Held.Reason != core.HeldNone || !nobody:
		return nil
	case q.Queue == "":
		return fmt.Errorf("no worker takes %q tasks", q.Type)
	default:
		return fmt.Errorf("no worker takes %q tasks from the queue %s", q.Type, q.Queue)
	}
}
