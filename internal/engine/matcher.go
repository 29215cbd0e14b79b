package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Matcher gives the slots of a process's workers to its partitions, so that a slot is counted once however many partitions
// there are. One process has one Matcher. A partition takes a slot before it records that an attempt starts, and gives it
// back when the worker has reported that the work is over:
//
//	slot, ok := m.take(seat, queue)   no slot is free: the seat's partition is called when one may be
//	...
//	m.release(seat, slot)
//
// Where several partitions wait for the same slots they get them in turn. All methods are safe for concurrent use.
type Matcher struct {
	members atomic.Pointer[[]*member] // read without the lock; replaced, never changed

	mu     sync.Mutex
	queues map[queueKey]*slots
}

// member is one of the Workers in a process.
type member struct {
	workers Workers
	name    string // recorded as the attempts' worker; empty: the partition's owner is
}

// slots counts those of one queue and task type.
type slots struct {
	busy    map[*member]int
	waiting []*seat // in the order in which they get slots
}

// slot is one attempt's place at a worker.
type slot struct {
	of  *member
	key queueKey
}

// seat is a partition's place at the matcher.
type seat struct {
	// wake is called, from any goroutine and never under the matcher's lock, when a slot may be free for the partition.
	wake func(queue, taskType string)
}

// NewMatcher returns a matcher without workers.
func NewMatcher() *Matcher {
	m := &Matcher{queues: make(map[queueKey]*slots)}
	m.members.Store(new([]*member))
	return m
}

// Add adds workers. The name is recorded with each attempt that they execute; empty: the name of the partition's owner is.
// Partitions that wait for slots are to be told, by Engine.Rematch.
func (m *Matcher) Add(name string, w Workers) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := append(slices.Clone(*m.members.Load()), &member{workers: w, name: name})
	m.members.Store(&all)
}

// Slots returns how many tasks of the type may run at once in the process: 0 none, -1 unbounded.
func (m *Matcher) Slots(queue, taskType string) int {
	n := 0
	for _, w := range *m.members.Load() {
		s := w.workers.Slots(queue, taskType)
		if s < 0 {
			return -1
		}
		n += s
	}
	return n
}

// take takes a slot for a partition. Where none is free, or others wait before it, the partition waits, until it takes one
// or leaves.
func (m *Matcher) take(s *seat, key queueKey) (slot, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(key)
	place := slices.Index(q.waiting, s)
	before := place
	if place < 0 {
		before = len(q.waiting)
	}
	got, free := m.free(q, key, before)
	switch {
	case free && place >= 0:
		q.waiting = slices.Delete(q.waiting, place, place+1)
	case !free && place < 0:
		q.waiting = append(q.waiting, s)
	}
	if free {
		q.busy[got]++
	}
	return slot{got, key}, free
}

func (m *Matcher) queue(key queueKey) *slots {
	q := m.queues[key]
	if q == nil {
		q = &slots{busy: make(map[*member]int)}
		m.queues[key] = q
	}
	return q
}

// free returns who has a free slot, leaving so many for those who came before.
func (m *Matcher) free(q *slots, key queueKey, before int) (*member, bool) {
	for _, w := range *m.members.Load() {
		n := w.workers.Slots(key.queue, key.taskType)
		if n < 0 {
			return w, true
		}
		if n -= q.busy[w]; n > before {
			return w, true
		}
		before -= max(n, 0)
	}
	return nil, false
}

// release gives a slot back. The partition that gives it looks by itself whether it has more to do.
func (m *Matcher) release(s *seat, got slot) {
	m.mu.Lock()
	q := m.queue(got.key)
	q.busy[got.of]--
	woken := m.woken(q, got.key, s)
	m.mu.Unlock()
	for _, other := range woken {
		other.wake(got.key.queue, got.key.taskType)
	}
}

// leave takes a partition that has nothing to start any more from among those that wait.
func (m *Matcher) leave(s *seat, key queueKey) {
	m.mu.Lock()
	q := m.queue(key)
	var woken []*seat
	if i := slices.Index(q.waiting, s); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		woken = m.woken(q, key, s)
	}
	m.mu.Unlock()
	for _, other := range woken {
		other.wake(key.queue, key.taskType)
	}
}

// woken returns the partitions, but for one, that a free slot awaits.
func (m *Matcher) woken(q *slots, key queueKey, but *seat) (out []*seat) {
	for i, s := range q.waiting {
		if _, free := m.free(q, key, i); !free {
			break
		}
		if s != but {
			out = append(out, s)
		}
	}
	return out
}

// revoke stops an attempt that no partition holds any more. Whoever does not know it reports it as stopped.
func (m *Matcher) revoke(tok core.Token, why policy.Kind) {
	if all := *m.members.Load(); len(all) > 0 {
		all[0].workers.Revoke(tok, why)
	}
}
