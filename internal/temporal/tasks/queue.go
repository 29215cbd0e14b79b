package tasks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// offer is a workflow task that waits for a worker, or a query.
type offer struct {
	run   *OfRun
	query *query    // nil: it is a workflow task
	queue string    // the queue of all workers of the workflow
	since core.Time // when it was made
	// patience ends the wait for the worker that has the workflow in its memory; nil: any worker may take the offer.
	patience *time.Timer
}

// queues are the offers and the workers that wait for them, by the name of the task queue.
type queues struct {
	closing chan struct{}

	mu     sync.Mutex
	closed bool
	byName map[string]*queue
	// left has the queues of workers that have stopped, and lefts the same in the order in which they did.
	left  map[string]bool
	lefts []string
}

// mostLeft bounds how many queues of stopped workers are known. Tasks for older ones wait until the patience ends.
const mostLeft = 10_000

// queue has offers or workers, never both.
type queue struct {
	offers  []*offer
	workers []chan *offer
}

func newQueues() *queues {
	return &queues{closing: make(chan struct{}), byName: map[string]*queue{}, left: map[string]bool{}}
}

func (q *queues) of(name string) *queue {
	one := q.byName[name]
	if one == nil {
		one = &queue{}
		q.byName[name] = one
	}
	return one
}

// tidy forgets a queue that is empty.
func (q *queues) tidy(name string) {
	if one := q.byName[name]; one != nil && len(one.offers) == 0 && len(one.workers) == 0 {
		delete(q.byName, name)
	}
}

// put adds an offer, before the others if it was taken and given back.
func (q *queues) put(name string, o *offer, back bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.of(name)
	switch {
	case len(one.workers) > 0:
		one.workers[0] <- o
		one.workers = one.workers[1:]
		q.tidy(name)
	case back:
		one.offers = slices.Insert(one.offers, 0, o)
	default:
		one.offers = append(one.offers, o)
	}
}

// remove takes an offer out, and reports whether no worker had taken it.
func (q *queues) remove(name string, o *offer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.byName[name]
	if one == nil {
		return false
	}
	i := slices.Index(one.offers, o)
	if i < 0 {
		return false
	}
	one.offers = slices.Delete(one.offers, i, i+1)
	q.tidy(name)
	return true
}

// take returns the oldest offer, once there is one; nil: the wait is over, or ctx.
func (q *queues) take(ctx context.Context, name string, wait time.Duration) *offer {
	q.mu.Lock()
	one := q.of(name)
	if len(one.offers) > 0 {
		o := one.offers[0]
		one.offers = one.offers[1:]
		q.tidy(name)
		q.mu.Unlock()
		return o
	}
	if q.closed {
		q.tidy(name)
		q.mu.Unlock()
		return nil
	}
	worker := make(chan *offer, 1)
	one.workers = append(one.workers, worker)
	q.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case o := <-worker:
		return o
	case <-ctx.Done():
	case <-timer.C:
	case <-q.closing:
	}
	q.mu.Lock()
	i := slices.Index(one.workers, worker)
	if i >= 0 {
		one.workers = slices.Delete(one.workers, i, i+1)
		q.tidy(name)
	}
	q.mu.Unlock()
	if i >= 0 {
		return nil
	}
	o := <-worker // it came at the same time
	if ctx.Err() != nil {
		q.put(name, o, true)
		return nil
	}
	return o
}

// leave returns the offers of a worker that has stopped. Nothing may be put into its queue any more.
func (q *queues) leave(name string) []*offer {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.left[name] {
		q.left[name] = true
		q.lefts = append(q.lefts, name)
	}
	if len(q.lefts) > mostLeft {
		delete(q.left, q.lefts[0])
		q.lefts = q.lefts[1:]
	}
	one := q.byName[name]
	if one == nil {
		return nil
	}
	offers := one.offers
	one.offers = nil
	q.tidy(name)
	return offers
}

// hasLeft reports whether the worker of a queue has stopped.
func (q *queues) hasLeft(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left[name]
}

// waiting returns how many offers wait in a queue, and when the oldest was made; zero: none does.
func (q *queues) waiting(name string) (count int, since core.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.byName[name]
	if one == nil || len(one.offers) == 0 {
		return 0, 0
	}
	return len(one.offers), one.offers[0].since
}

// close lets all workers go.
func (q *queues) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
}
