package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// heldLong is how long an open breaker has to hold an attempt until somebody should look.
const heldLong = 20 * time.Minute

// waitsAge is how long the answer is used which attempts wait until somebody acts.
const waitsAge = 2 * time.Second

// waits knows which attempts wait until somebody acts.
type waits struct {
	mu    sync.Mutex
	known map[core.RunID]error
	until core.Time
}

// unserved reports whether no worker takes the tasks of a type from a queue.
func (d *Daemon) unserved(queue, taskType string) bool {
	return d.queues != nil && !d.engine.Here(queue, taskType) && !d.queues.Served(queue, taskType)
}

// waitsForSomebody returns why attempts wait until somebody acts, by run.
func (d *Daemon) waitsForSomebody(ctx context.Context) (map[core.RunID]error, error) {
	d.waits.mu.Lock()
	defer d.waits.mu.Unlock()
	now := d.now()
	if d.waits.known != nil && now < d.waits.until {
		return d.waits.known, nil
	}
	queues, err := d.engine.Queues(ctx)
	if err != nil {
		return nil, err
	}
	known := map[core.RunID]error{}
	for _, q := range queues {
		nobody := d.unserved(q.Queue, q.Type)
		for _, w := range q.Waits {
			if why := whyWaits(q, w, nobody, now); why != nil {
				known[w.Run] = why
			}
		}
	}
	d.waits.known, d.waits.until = known, now.Add(waitsAge)
	return known, nil
}

// whyWaits says why an attempt waits until somebody acts; nil: it goes on by itself.
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
