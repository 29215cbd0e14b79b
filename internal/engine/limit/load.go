package limit

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// StartLoad notes that a partition is about to count the places of its runs. While one does, no queue admits a run: it
// cannot know how many places are taken.
func (l *Limiter) StartLoad() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loads++
}

// FinishLoad notes that a partition has counted the places of its runs. After the last one, turns are offered.
func (l *Limiter) FinishLoad(asks *Client) {
	defer l.lock(asks, 0)()
	l.loads--
	if l.loads > 0 {
		return
	}
	var queues []*limited
	for _, p := range l.resources {
		if p.Runs || l.remote {
			queues = append(queues, p)
		}
	}
	slices.SortFunc(queues, (*limited).compare)
	for _, p := range queues {
		l.look(p)
		l.tellAgain(p)
	}
}

// ReachRemote notes that there are remote workers: the attempts that they have executed since before the engine was
// opened have to be counted before anything limited starts.
func (l *Limiter) ReachRemote() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remote = true
}

// waitForLoad puts a ticket into its line without a reason, until all places are counted.
func (l *Limiter) waitForLoad(t *Ticket) {
	l.takeBack(t)
	l.wait(t, &t.shares[0], core.Held{})
}

// TakePlace counts a place that was taken before this process counted.
func (l *Limiter) TakePlace(t *Ticket) {
	defer l.lock(t.Client, 0)()
	t.running = true
	for i := range t.shares {
		s := &t.shares[i]
		s.running++
		s.key.has(t)
		l.sortKey(s.limited, s.key)
	}
}

// yield gives up a run's turn if another waiting run goes first by now: it has arrived, or was retried, after the turn
// was offered. It reports whether it did.
func (l *Limiter) yield(t *Ticket) bool {
	s := t.in
	first := func(o *Ticket) bool { return o.Before(t) }
	line, ready := &s.key.line, &s.ready
	if (line.Len() == 0 || !first(s.key.first())) && (ready.Len() == 0 || !first(ready.First().first())) {
		return false
	}
	p, held := s.limited, t.held
	l.takeBack(t)
	l.wait(t, s, held)
	l.look(p)
	return true
}
