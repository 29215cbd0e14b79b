package slots

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/policy"
)

// Matcher shares the slots of a process's workers among its partitions. It counts each slot once, however many
// partitions there are. One process has one Matcher. A partition takes a slot before it records that an attempt starts.
// It releases the slot when the worker reports that the work is over:
//
//	slot, ok := m.Take(client, key)   // if no slot is free, the client is woken when one may be free
//	...
//	m.Release(client, slot)
//
// If several partitions wait for the same slots, they get them in turn. All methods are safe for concurrent use.
type Matcher struct {
	workers atomic.Pointer[[]*Named] // read without the lock: Add replaces the slice and never changes it

	mu       sync.Mutex
	queues   map[Key]*queueSlots
	suspects []suspects // partitions in which suspects wait, in the order in which they came
	group    group      // the group of the suspects that have slots
	loads    int        // partitions of which not all runs are read

	limiter *limit.Limiter // the limits of queues and services; it has its own lock
}

// Named are workers with the name that is recorded for their attempts. If the name is empty, the name of the
// partition's owner is recorded.
type Named struct {
	Workers AnyWorkers
	Instant Workers       // the workers, if they are in this process; else nil
	Remote  RemoteWorkers // the workers, if they are in other processes; else nil
	Placed  Placed        // the workers, if their slots are in several places; else nil
	Name    string

	before []*Named // remote workers that were added before these, which are remote too
}

// queueSlots counts the slots of one queue and task type.
type queueSlots struct {
	busy    map[*Named]int  // slots that are taken
	waiting []*limit.Client // the clients in the order in which they get slots
}

// Slot is room for one attempt at a worker.
type Slot struct {
	Of   *Named
	Key  Key
	Seat Seat // the seat at remote workers
	Used bool // remote workers have the task, so there is no seat to give back

	Claims core.Token // the attempt that has claimed the slot in its place; zero: none had to
}

// NewMatcher returns a matcher without workers.
func NewMatcher() *Matcher {
	m := &Matcher{queues: make(map[Key]*queueSlots), limiter: limit.New()}
	m.workers.Store(new([]*Named))
	return m
}

// Add adds workers. The name is recorded with each attempt that they execute; if it is empty, the name of the
// partition's owner is recorded. The caller calls Engine.Rematch afterwards, so that waiting attempts find the workers.
func (m *Matcher) Add(name string, w Workers) {
	m.add(&Named{Workers: w, Instant: w, Name: name})
}

// AddPlaced adds workers whose slots are in several places; see Add.
func (m *Matcher) AddPlaced(name string, w Placed) {
	m.add(&Named{Workers: w, Placed: w, Name: name})
}

// AddRemote adds workers in other processes; see Add.
func (m *Matcher) AddRemote(name string, w RemoteWorkers) {
	m.add(&Named{Workers: w, Remote: w, Name: name})
}

func (m *Matcher) add(w *Named) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.Remote != nil {
		w.before = m.remotes()
		m.limiter.ReachRemote()
	}
	all := append(slices.Clone(*m.workers.Load()), w)
	m.workers.Store(&all)
}

// Limiter returns the limits of queues and services.
func (m *Matcher) Limiter() *limit.Limiter { return m.limiter }

// Slots returns how many tasks of the type may run at once in the process. 0 means none, -1 means any number.
func (m *Matcher) Slots(queue, taskType string) int {
	n := 0
	for _, w := range *m.workers.Load() {
		s := w.slots(queue, taskType)
		if s < 0 {
			return -1
		}
		n += s
	}
	return n
}

// Here reports whether workers of this process execute tasks of a type from a queue.
func (m *Matcher) Here(queue, taskType string) bool {
	return slices.ContainsFunc(*m.workers.Load(), func(w *Named) bool {
		return w.Remote == nil && w.Workers.Slots(queue, taskType) != 0
	})
}

// Room returns how many slots are free for tasks of a queue and a type; -1 means any number.
func (m *Matcher) Room(key Key) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := 0
	for _, w := range *m.workers.Load() {
		n, bounded := w.free(m.queues[key], key)
		if !bounded {
			return -1
		}
		sum += n
	}
	return sum
}

// Take takes a slot for a partition. If none is free, or if other partitions wait before this one, the partition waits
// until it takes a slot or leaves.
func (m *Matcher) Take(c *limit.Client, key Key) (Slot, bool) {
	if key.Group > 0 {
		return m.takeApart(suspects{c, key})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(key)
	place := slices.Index(q.waiting, c)
	before := place
	if place < 0 {
		before = len(q.waiting)
	}
	if next := m.nextSuspect(); next >= 0 && m.suspects[next].key.Ordinary() == key {
		before++
	}
	workers, free := m.free(q, key, before)
	switch {
	case free && place >= 0:
		q.waiting = slices.Delete(q.waiting, place, place+1)
	case !free && place < 0:
		q.waiting = append(q.waiting, c)
	}
	if !free {
		return Slot{}, false
	}
	return q.take(workers, key), true
}

// take takes a slot of workers that have a free one.
func (q *queueSlots) take(w *Named, key Key) Slot {
	if w.Remote != nil {
		return Slot{Of: w, Key: key, Seat: w.Remote.Reserve(key.Queue, key.Type)}
	}
	q.busy[w]++
	return Slot{Of: w, Key: key}
}

// give takes a slot back.
func (q *queueSlots) give(s Slot) {
	switch {
	case s.Of.Remote == nil:
		q.busy[s.Of]--
	case !s.Used:
		s.Of.Remote.Return(s.Seat)
	}
}

func (m *Matcher) queue(key Key) *queueSlots {
	q := m.queues[key]
	if q == nil {
		q = &queueSlots{busy: make(map[*Named]int)}
		m.queues[key] = q
	}
	return q
}

// free returns workers that have a free slot. It leaves one slot for each of the partitions that wait before.
// For example, with 2 free slots and before = 2, there is none for the caller.
func (m *Matcher) free(q *queueSlots, key Key, before int) (*Named, bool) {
	for _, w := range *m.workers.Load() {
		n, bounded := w.free(q, key)
		if !bounded || n > before {
			return w, true
		}
		before -= n
	}
	return nil, false
}

// free counts the slots of these workers for a queue that no attempt has, and reports whether they are bounded. Remote
// workers themselves count those that are taken. No attempt has used the queue: nil.
func (w *Named) free(q *queueSlots, key Key) (n int, bounded bool) {
	n = w.slots(key.Queue, key.Type)
	if n < 0 {
		return 0, false
	}
	if w.Remote == nil && q != nil {
		n -= q.busy[w]
	}
	return max(n, 0), true
}

// Release gives a slot back and wakes the partitions that can use it. It does not wake the partition that gives it
// back, which itself looks for a waiting attempt.
func (m *Matcher) Release(c *limit.Client, s Slot) {
	if s.Claims != (core.Token{}) {
		s.Of.Placed.Unclaim(s.Claims)
	}
	m.mu.Lock()
	key := s.Key.Ordinary()
	q := m.queue(key)
	q.give(s)
	if s.Key.Group > 0 {
		m.group.left()
	}
	suspect := m.whichSuspect(c)
	next := m.whoCanTake(q, key, c)
	m.mu.Unlock()
	suspect.wake()
	for _, other := range next {
		other.Wake(key.Queue, key.Type)
	}
}

// Leave removes a partition from those that wait, because it has nothing left to start.
func (m *Matcher) Leave(c *limit.Client, key Key) {
	m.mu.Lock()
	var suspect suspects
	var next []*limit.Client
	if i := slices.Index(m.suspects, suspects{c, key}); i >= 0 {
		m.suspects = slices.Delete(m.suspects, i, i+1)
		suspect = m.whichSuspect(nil)
	}
	q := m.queue(key.Ordinary())
	if i := slices.Index(q.waiting, c); i >= 0 && key.Group == 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		next = m.whoCanTake(q, key, c)
	}
	m.mu.Unlock()
	suspect.wake()
	for _, other := range next {
		other.Wake(key.Queue, key.Type)
	}
}

// whoCanTake returns the waiting partitions for which a slot is free, except one.
func (m *Matcher) whoCanTake(q *queueSlots, key Key, except *limit.Client) (out []*limit.Client) {
	for i, c := range q.waiting {
		if _, free := m.free(q, key, i); !free {
			break
		}
		if c != except {
			out = append(out, c)
		}
	}
	return out
}

// Revoke stops an attempt that has no slot in any partition. Workers report an attempt that they do not know as
// stopped, so it does not matter which workers are asked where none knows it.
func (m *Matcher) Revoke(tok core.Token, why policy.Kind) {
	all := *m.workers.Load()
	if i := slices.IndexFunc(all, func(w *Named) bool { return w.Remote != nil && w.Remote.Has(tok) }); i >= 0 {
		all[i].Workers.Revoke(tok, why)
	} else if len(all) > 0 {
		all[0].Workers.Revoke(tok, why)
	}
}
