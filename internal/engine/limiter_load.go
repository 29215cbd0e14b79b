package engine

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// startLoad says that a partition is about to count the places of its runs. While one does, no queue admits a run: it
// cannot know how many places are taken.
func (l *limiter) startLoad() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loads++
}

// finishLoad says that a partition has counted the places of its runs. After the last one, turns are offered.
func (l *limiter) finishLoad(asks *matcherClient) {
	defer l.lock(asks, 0)()
	l.loads--
	if l.loads > 0 {
		return
	}
	var queues []*limited
	for _, p := range l.places {
		if p.runs || l.remote {
			queues = append(queues, p)
		}
	}
	slices.SortFunc(queues, (*limited).compare)
	for _, p := range queues {
		l.look(p)
		l.tellAgain(p)
	}
}

// reachRemote says that there are remote workers: what they execute since before the engine was opened has to be
// counted before anything starts that is limited.
func (l *limiter) reachRemote() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remote = true
}

// waitForLoad puts a ticket into its line without a reason, until all places are counted.
func (l *limiter) waitForLoad(t *ticket) {
	l.takeBack(t)
	l.wait(t, &t.shares[0], core.Held{})
}

// takePlace counts a place that was taken before this process counted.
func (l *limiter) takePlace(t *ticket) {
	defer l.lock(t.client, 0)()
	t.running = true
	for i := range t.shares {
		s := &t.shares[i]
		s.running++
		s.key.running++
		l.sortKey(s.limited, s.key)
	}
}

// yield gives up a run's turn if another one that waits goes first by now: it has come, or was retried, after the turn
// was offered. It reports whether it did.
func (l *limiter) yield(t *ticket) bool {
	s := t.in
	first := func(o *ticket) bool { return o.Before(t) }
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
