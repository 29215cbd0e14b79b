package sim

import "github.com/pawl-dev/pawl/internal/core"

// turns is the queue of runs in which the checker follows the turns of keys. Nobody has priority there, and only one
// run has a place at a time, so only its turn delays a run.
const turns = "turns"

func priorityIn(q core.RunQueue) int32 {
	if q.Name == turns {
		return 0
	}
	return q.Priority
}

// turnModel is the checker's knowledge of a run that waits for the turn of its key.
type turnModel struct {
	at     *node          // the process in which it waits: in a new one the keys' turns begin again
	ahead  int            // runs of its key that waited before it, when it came
	passed map[string]int // how many runs of each key have begun since
}

// enterTurns notes that the run reaches its queue.
func (m *runModel) enterTurns() {
	if m.q.queue.Name == turns {
		m.beginTurn()
	}
}

// beginTurn begins to count who passes the run.
func (m *runModel) beginTurn() {
	t := turnModel{at: m.ch.appending, passed: map[string]int{}}
	for _, other := range m.ch.waiting(m.a) {
		if o := &other.model.q; o.queue.Key == m.q.queue.Key && o.entered <= m.q.entered {
			t.ahead++
		}
	}
	m.q.turn = t
}

// checkTurn checks that a run which begins passes no run whose key has its turn: while a run waits, another key has at
// most one turn for each run of its own key that is before it, one for the run itself, and one that had come already.
// Appends that were refused use up turns that are not in the journal. Runs that leave the queue without having begun
// use none.
func (m *runModel) checkTurn() {
	ch := m.ch
	if m.q.queue.Name != turns || ch.appending.process.shared { // there, keys have turns in other partitions, too
		return
	}
	for _, other := range ch.waiting(m.a) {
		o := &other.model
		if o.q.queue.Key == m.q.queue.Key {
			continue
		}
		if o.q.turn.at != ch.appending {
			o.beginTurn()
		}
		o.q.turn.passed[m.q.queue.Key]++
		known := ch.appending.process.refused == 0
		if n := o.q.turn.passed[m.q.queue.Key]; known && n > o.q.turn.ahead+2 {
			m.fail(Limited, "%d runs of the key %q have begun in queue %s while run %s waits, which had %d before it "+
				"with its key %q", n, m.q.queue.Key, turns, short(other.id), o.q.turn.ahead, o.q.queue.Key)
		}
	}
}
