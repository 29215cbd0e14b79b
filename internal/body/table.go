package body

import (
	"bytes"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// maxPause is the longest pause before a body that is stuck is called again.
const maxPause = 10 * time.Minute

// Table holds a host's state of its runs: their sessions, and why bodies are stuck. Like a session it has no lock and
// no clock. S is the host's state of a session.
type Table[S comparable] struct {
	sessions   map[core.RunID]S
	stuck      map[core.RunID]*stuckBody
	generation int // the generation of new sessions
	closed     bool
}

// stuckBody is the reason why a run's body cannot go on.
type stuckBody struct {
	err   error
	times int // how often in a row
}

// NewTable returns a table without sessions.
func NewTable[S comparable]() *Table[S] {
	return &Table[S]{sessions: map[core.RunID]S{}, stuck: map[core.RunID]*stuckBody{}}
}

// Find returns a run's session.
func (t *Table[S]) Find(run core.RunID) (S, bool) {
	s, ok := t.sessions[run]
	return s, ok
}

// Open returns a run's session. It makes one if there is none; fresh reports that. ok is false once the table is
// closed.
func (t *Table[S]) Open(run core.RunID, create func(generation int) S) (s S, fresh, ok bool) {
	if t.closed {
		return s, false, false
	}
	if s, ok := t.sessions[run]; ok {
		return s, false, true
	}
	s = create(t.generation)
	t.sessions[run] = s
	return s, true, true
}

// Drop forgets a session, if it is its run's still.
func (t *Table[S]) Drop(run core.RunID, s S) {
	if t.sessions[run] == s {
		delete(t.sessions, run)
	}
}

// All returns the sessions in the order of their runs.
func (t *Table[S]) All() []S {
	runs := t.runs()
	all := make([]S, len(runs))
	for i, run := range runs {
		all[i] = t.sessions[run]
	}
	return all
}

func (t *Table[S]) runs() []core.RunID {
	runs := make([]core.RunID, 0, len(t.sessions))
	for run := range t.sessions {
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b core.RunID) int { return bytes.Compare(a[:], b[:]) })
	return runs
}

// Reset forgets the sessions of some runs and returns them. All that are made from now on are of the generation.
func (t *Table[S]) Reset(generation int, of func(core.RunID) bool) []S {
	var gone []S
	for _, run := range t.runs() {
		if of(run) {
			gone = append(gone, t.sessions[run])
			delete(t.sessions, run)
		}
	}
	t.generation = max(t.generation, generation)
	return gone
}

// Close forgets all sessions and returns them. No more are made.
func (t *Table[S]) Close() []S {
	t.closed = true
	return t.Reset(t.generation, func(core.RunID) bool { return true })
}

// Len counts the sessions.
func (t *Table[S]) Len() int { return len(t.sessions) }

// NoteStuck notes why a run's body cannot go on. It returns the pause before it is called again: none if it took too
// long for the first time, else one that doubles from the task limit up to ten minutes.
func (t *Table[S]) NoteStuck(run core.RunID, err error, why Why, limit time.Duration) time.Duration {
	b := t.stuck[run]
	if b == nil {
		b = &stuckBody{}
		t.stuck[run] = b
	}
	b.err = err
	b.times++
	if why == Overdue && b.times == 1 {
		return 0
	}
	return min(limit<<min(b.times-1, 20), maxPause)
}

// ClearStuck notes that nothing keeps a run's body from going on.
func (t *Table[S]) ClearStuck(run core.RunID) { delete(t.stuck, run) }

// Problem returns why a run's body cannot go on, nil if it can.
func (t *Table[S]) Problem(run core.RunID) error {
	if b := t.stuck[run]; b != nil {
		return b.err
	}
	return nil
}

// Problems returns why bodies cannot go on, by run.
func (t *Table[S]) Problems() map[core.RunID]error {
	all := make(map[core.RunID]error, len(t.stuck))
	for run, b := range t.stuck {
		all[run] = b.err
	}
	return all
}
