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

	mu       sync.Mutex
	queues   map[queueKey]*slots
	suspects []waiting // in the order in which they get the place of a suspect
	apart    bool      // a suspect has it
}

// waiting is a partition in which a suspect waits. Only one suspect at a time runs in a process: what it then loses
// with its worker, it has lost by itself or by chance, and not by another suspect.
type waiting struct {
	seat *seat
	key  queueKey
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
	if key.apart {
		return m.takeApart(waiting{s, key})
	}
	q := m.queue(key)
	place := slices.Index(q.waiting, s)
	before := place
	if place < 0 {
		before = len(q.waiting)
	}
	if m.nextSuspect(key) >= 0 {
		before++
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

// takeApart takes a slot for a suspect.
func (m *Matcher) takeApart(w waiting) (slot, bool) {
	place := slices.Index(m.suspects, w)
	if place < 0 {
		place = len(m.suspects)
		m.suspects = append(m.suspects, w)
	}
	if place != m.nextSuspect(w.key) {
		return slot{}, false
	}
	key := w.key.ordinary()
	q := m.queue(key)
	got, free := m.free(q, key, 0)
	if free {
		m.suspects = slices.Delete(m.suspects, place, place+1)
		m.apart = true
		q.busy[got]++
	}
	return slot{got, w.key}, free
}

// nextSuspect returns which suspect may go on with a slot of a queue, as an index of those that wait; -1: none may.
// It is the first one in the process for whose queue there are workers with a free slot.
func (m *Matcher) nextSuspect(key queueKey) int {
	if m.apart {
		return -1
	}
	for i, w := range m.suspects {
		own := w.key.ordinary()
		if own == key.ordinary() {
			return i
		}
		if _, free := m.free(m.queue(own), own, 0); free {
			return -1
		}
	}
	return -1
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
	key := got.key.ordinary()
	q := m.queue(key)
	q.busy[got.of]--
	m.apart = m.apart && !got.key.apart
	suspect := m.wokenSuspect(s)
	woken := m.woken(q, key, s)
	m.mu.Unlock()
	suspect.wake()
	for _, other := range woken {
		other.wake(key.queue, key.taskType)
	}
}

// wokenSuspect returns the partition, if it is not this one, whose suspect may go on; the zero value: none.
func (m *Matcher) wokenSuspect(but *seat) waiting {
	for i, w := range m.suspects {
		own := w.key.ordinary()
		if _, free := m.free(m.queue(own), own, 0); free && m.nextSuspect(own) == i && w.seat != but {
			return w
		}
	}
	return waiting{}
}

func (w waiting) wake() {
	if w.seat != nil {
		w.seat.wake(w.key.queue, w.key.taskType)
	}
}

// leave takes a partition that has nothing to start any more from among those that wait.
func (m *Matcher) leave(s *seat, key queueKey) {
	m.mu.Lock()
	var suspect waiting
	if i := slices.Index(m.suspects, waiting{s, key}); i >= 0 {
		m.suspects = slices.Delete(m.suspects, i, i+1)
		suspect = m.wokenSuspect(nil)
	}
	q := m.queue(key.ordinary())
	var woken []*seat
	if i := slices.Index(q.waiting, s); i >= 0 && !key.apart {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		woken = m.woken(q, key, s)
	}
	m.mu.Unlock()
	suspect.wake()
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
