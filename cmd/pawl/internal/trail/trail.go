// Package trail is a run with everything that happened in it: the state, every attempt and every operation, folded from the
// run's entries. What the command line shows of a run it reads from here.
package trail

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Trail is one run.
type Trail struct {
	Run        *core.Run
	Operations []Operation
	Reopened   int // how often an operator's retry opened the closed run again

	teller   *core.Teller
	attempts [][]Attempt // by step
	items    map[core.StepID]int
}

// Attempt is one attempt of a step.
type Attempt struct {
	Number    int
	Ready     core.Time // it waited for a worker from here on
	Started   core.Time // zero: it never started
	Ended     core.Time // zero: it is open
	Worker    string
	Child     core.RunID // of a child step
	Failure   *policy.Failure
	Note      string    // a broken retry condition
	NextAt    core.Time // the attempt after it, where one follows
	Stopping  core.Time // its work was told to stop here
	Stopped   core.Time
	Abandoned bool // its work did not stop
}

// Outcome names how the attempt ended: succeeded, the failure's kind, or "" while it is open.
func (a *Attempt) Outcome() string {
	switch {
	case a.Ended == 0:
		return ""
	case a.Failure == nil:
		return "succeeded"
	default:
		return a.Failure.Kind.String()
	}
}

// Operation is the audit of one operation.
type Operation struct {
	At            core.Time
	Op            core.Op
	Step          string // "": of the run
	Actor, Reason string
	Moves         []Move // the deadlines it set
}

// Move is a deadline that was set.
type Move struct {
	Limit policy.LimitKind
	At    core.Time // zero: it was taken away
}

// String is the move in words: which deadline, and until when.
func (m Move) String() string {
	name := m.Limit.String() + " deadline"
	if m.Limit == policy.LimitDeadline {
		name = "deadline"
	}
	if m.At == 0 {
		return "no " + name
	}
	return name + " " + Local(m.At)
}

// Local is an instant for people, in their own time.
func Local(at core.Time) string { return at.Std().Local().Format("2006-01-02 15:04:05") }

// New returns the trail of a run of which nothing is known yet.
func New(id core.RunID, def *core.Definition) *Trail {
	teller := core.NewTeller(id, def)
	return &Trail{Run: teller.Run(), teller: teller}
}

// Of folds a whole history.
func Of(id core.RunID, def *core.Definition, entries []core.Entry) *Trail {
	t := New(id, def)
	for i := range entries {
		t.Fold(entries[i])
	}
	return t
}

// Attempts returns a step's attempts, the first one first.
func (t *Trail) Attempts(id core.StepID) []Attempt {
	if int(id) >= len(t.attempts) {
		return nil
	}
	return t.attempts[id]
}

// Items returns how many items a forEach has, also of those that have not begun; 0: that is not known.
func (t *Trail) Items(s *core.Step) int {
	n, known := t.items[s.ID]
	if known {
		return n
	}
	if def := t.Run.Attached(); def != nil && def.CountItems != nil {
		n, _ = def.CountItems(t.Run, s)
	}
	if t.items == nil {
		t.items = map[core.StepID]int{}
	}
	t.items[s.ID] = n // its list stays what it was when the step began
	return n
}

// Superseded reports whether a step ran before the run was retried, which decided it anew: a hook of the earlier end.
func (t *Trail) Superseded(s *core.Step) bool { return s.Dropped && len(t.Attempts(s.ID)) > 0 }

// Last returns a step's last attempt, nil before the first.
func (t *Trail) Last(id core.StepID) *Attempt {
	if all := t.Attempts(id); len(all) > 0 {
		return &all[len(all)-1]
	}
	return nil
}

// Fold takes the next entry and returns the events it is told as.
func (t *Trail) Fold(e core.Entry) []core.Event {
	events := t.teller.Events(e)
	for _, rec := range e.Records {
		t.note(e.At, rec)
	}
	return events
}

// note keeps what the state forgets: attempts and operations.
func (t *Trail) note(at core.Time, rec core.Record) {
	switch rec := rec.(type) {
	case core.StepBegan:
		t.attempts = append(t.attempts, nil)
		if id := core.StepID(len(t.attempts) - 1); t.Run.Steps[id].Spec.Kind == core.KindTask {
			t.attempts[id] = []Attempt{{Number: 1, Ready: at}}
		}
	case core.StepOmitted:
		t.attempts = append(t.attempts, nil)
	case core.AttemptReady:
		t.begin(rec.Step, at)
	case core.AttemptStarted:
		if t.Run.Steps[rec.Step].Spec.Kind != core.KindTask {
			t.begin(rec.Step, at)
		}
		t.change(rec.Step, func(a *Attempt) { a.Started, a.Worker, a.Child = at, rec.Worker, rec.Child })
	case core.AttemptEnded:
		t.change(rec.Step, func(a *Attempt) {
			a.Ended, a.Failure, a.Note, a.NextAt = at, rec.Failure, rec.Note, rec.NextAt
			if rec.Stopping {
				a.Stopping = at
			}
		})
	case core.AttemptStopped:
		t.change(rec.Step, func(a *Attempt) { a.Stopped, a.Abandoned = at, rec.Abandoned })
	case core.RunReopened:
		t.Reopened++
	case core.Operated:
		op := Operation{At: at, Op: rec.Op, Actor: rec.Actor, Reason: rec.Reason}
		if rec.Step != core.NoStep {
			op.Step = t.key(rec.Step)
		}
		t.Operations = append(t.Operations, op)
	case core.DeadlineMoved:
		if n := len(t.Operations); n > 0 {
			t.Operations[n-1].Moves = append(t.Operations[n-1].Moves, Move{rec.Limit, rec.At})
		}
	default:
	}
}

func (t *Trail) begin(id core.StepID, at core.Time) {
	t.attempts[id] = append(t.attempts[id], Attempt{Number: len(t.attempts[id]) + 1, Ready: at})
}

func (t *Trail) change(id core.StepID, f func(*Attempt)) {
	if last := t.Last(id); last != nil {
		f(last)
	}
}

func (t *Trail) key(id core.StepID) string {
	if int(id) >= len(t.Run.Steps) {
		return ""
	}
	return t.Run.Steps[id].Key()
}

// Max is how many attempts a step's policy allows; 0: no bound.
func Max(s *core.Step) int {
	r := s.Effective().Retry
	switch {
	case r == nil:
		return 1
	case r.MaxAttempts < 0:
		return 0
	default:
		return r.MaxAttempts
	}
}

// Specs returns a definition's steps, in its order, hooks included.
func Specs(def *core.Definition) []*core.StepSpec {
	if def == nil {
		return nil
	}
	return def.Specs
}

// Find looks a step up by its key; a dropped one is forgotten.
func (t *Trail) Find(key string) (*core.Step, bool) { return t.Run.Lookup(key) }

// Keys are the keys of the run's steps.
func (t *Trail) Keys() []string {
	var keys []string
	for i := range t.Run.Steps {
		if s := &t.Run.Steps[i]; !s.Dropped && !slices.Contains(keys, s.Key()) {
			keys = append(keys, s.Key())
		}
	}
	return keys
}
