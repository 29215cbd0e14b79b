// Package trail explains a run. It computes the run's state, every attempt and every operation from the run's entries,
// and explains in sentences why each step and the run ended as they did. It makes the values of package api.
package trail

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// Trail is one run with everything that happened in it. It is not safe for concurrent use. The values it returns do
// not change.
type Trail struct {
	speaker
	Words func(*core.Step) api.Words // another system's words for a step; nil if there is none
	Known Known                      // things known besides the history; they may change between two snapshots

	teller     *core.Teller
	entries    int             // folded so far
	events     int             // number of the last event told
	attempts   [][]api.Attempt // attempts by step
	operations []api.Audit
	input      checked
	output     checked
	views      []view             // the steps as they were shown last
	asked      map[[2]string]bool // whether no worker comes, by queue and type, as the views have it
	pauses     []pause
	again      map[core.StepID]lives // the steps that an operator has put back to work
}

// view is how a step was shown last; without a step it has to be made.
type view struct {
	*api.Step
	until core.Time // it has to be made again after that; zero: never
}

// lives describes a step that an operator has put back to work.
type lives struct {
	n  int      // how often
	at api.Time // the last time
}

// New returns the trail of a run of which no entry was folded yet.
func New(id core.RunID, def *core.Definition) *Trail {
	teller := core.NewTeller(id, def)
	return &Trail{speaker: speaker{Run: teller.Run(), itemName: teller.ItemName}, teller: teller}
}

// Of returns the trail of a whole history.
func Of(id core.RunID, def *core.Definition, entries []core.Entry) *Trail {
	t := New(id, def)
	for i := range entries {
		t.Fold(entries[i])
	}
	return t
}

// Entries returns how many entries have been folded.
func (t *Trail) Entries() int { return t.entries }

// Events returns the number of the last event.
func (t *Trail) Events() int { return t.events }

// Fold takes the next entry and returns its events.
func (t *Trail) Fold(e core.Entry) []core.Event {
	events := t.teller.Events(e)
	t.counts = nil
	t.notePauses(api.Time(e.At))
	t.entries++
	t.events += len(events)
	for _, rec := range e.Records {
		t.note(api.Time(e.At), rec)
		t.changed(rec)
	}
	return events
}

// note keeps what the state does not keep: earlier attempts, and operations.
func (t *Trail) note(at api.Time, rec core.Record) {
	switch rec := rec.(type) {
	case core.StepBegan:
		t.attempts = append(t.attempts, nil)
		if id := core.StepID(len(t.attempts) - 1); t.Run.Steps[id].Spec.Kind == core.KindTask {
			t.attempts[id] = []api.Attempt{{Attempt: 1, ReadyAt: at}}
		}
	case core.StepOmitted:
		t.attempts = append(t.attempts, nil)
	case core.AttemptReady:
		t.begin(rec.Step, at)
	case core.AttemptHeld:
		if rec.Held.Reason != core.HeldNone {
			t.change(rec.Step, func(a *api.Attempt) { a.Held = t.heldBy(rec.Held, at) })
		}
	case core.AttemptStarted:
		if t.Run.Steps[rec.Step].Spec.Kind != core.KindTask {
			t.begin(rec.Step, at)
		}
		t.change(rec.Step, func(a *api.Attempt) { a.StartedAt, a.Worker, a.Child = at, rec.Worker, runText(rec.Child) })
	case core.AttemptBeat:
		if !rec.Output {
			t.change(rec.Step, func(a *api.Attempt) { beat(a, api.Time(rec.At)) })
		}
	case core.AttemptEnded:
		t.change(rec.Step, func(a *api.Attempt) { endAttempt(a, at, rec) })
	case core.AttemptStopped:
		t.change(rec.Step, func(a *api.Attempt) {
			a.StoppedAt, a.Killed, a.Abandoned = at, rec.Killed, rec.Abandoned
		})
	case core.Operated:
		op := api.Audit{At: at, Operation: rec.Op.String(), Actor: rec.Actor, Reason: rec.Reason}
		if rec.Step != core.NoStep {
			op.Step = t.key(rec.Step)
		}
		t.operations = append(t.operations, op)
	case core.PauseBegan:
		if n := len(t.operations); n > 0 {
			t.operations[n-1].StopClock = rec.StopClock
		}
	case core.StepReset:
		if rec.Restart {
			t.liveAgain(rec.Step, at)
		}
	case core.DeadlineMoved:
		if n := len(t.operations); n > 0 {
			op := &t.operations[n-1]
			op.Deadlines = append(op.Deadlines, api.Move{Limit: rec.Limit.String(), At: api.Time(rec.At)})
		}
	default:
	}
}

// mostBeats is how many heartbeats of an attempt are kept.
const mostBeats = 50

// beat adds a heartbeat. Earlier snapshots share the list and have their part of it.
func beat(a *api.Attempt, at api.Time) {
	if len(a.Heartbeats) == mostBeats {
		a.Heartbeats = a.Heartbeats[1:]
	}
	a.Heartbeats = append(a.Heartbeats, at)
}

func endAttempt(a *api.Attempt, at api.Time, rec core.AttemptEnded) {
	a.EndedAt, a.Failure, a.Note, a.NextAt = at, rec.Failure, rec.Note, api.Time(rec.NextAt)
	a.Outcome = "succeeded"
	if rec.Failure != nil {
		a.Outcome, a.Limit, a.Why = rec.Failure.Kind.String(), rec.Failure.Limit.String(), sentence(rec.Failure)
	}
}

func (t *Trail) begin(id core.StepID, at api.Time) {
	t.attempts[id] = append(t.attempts[id], api.Attempt{
		Attempt: len(t.attempts[id]) + 1, Life: t.again[id].n, ReadyAt: at,
	})
}

// liveAgain notes that an operator has put a step back to work.
func (t *Trail) liveAgain(id core.StepID, at api.Time) {
	if t.again == nil {
		t.again = map[core.StepID]lives{}
	}
	t.again[id] = lives{t.again[id].n + 1, at}
}

// change changes a step's last attempt.
func (t *Trail) change(id core.StepID, f func(*api.Attempt)) {
	if n := len(t.attempts[id]); n > 0 {
		f(&t.attempts[id][n-1])
	}
}

func (t *speaker) key(id core.StepID) string {
	if int(id) >= len(t.Run.Steps) {
		return ""
	}
	return t.Run.Steps[id].Key()
}

// Attempts returns a step's attempts, the first one first.
func (t *Trail) Attempts(id core.StepID) []api.Attempt {
	if int(id) >= len(t.attempts) {
		return nil
	}
	return slices.Clone(t.attempts[id])
}

// LastChild returns the run that a step's last attempt started, the zero id if there is none.
func (t *Trail) LastChild(id core.StepID) core.RunID {
	if int(id) >= len(t.attempts) || len(t.attempts[id]) == 0 {
		return core.RunID{}
	}
	child, err := core.ParseRunID(t.attempts[id][len(t.attempts[id])-1].Child)
	if err != nil {
		return core.RunID{}
	}
	return child
}

// superseded reports whether a step belongs to an end of the run that a retry has undone. Example: a hook that ran
// before the retry.
func (t *Trail) superseded(s *core.Step) bool { return s.Dropped && len(t.attempts[s.ID]) > 0 }

func runText(id core.RunID) string {
	if id == (core.RunID{}) {
		return ""
	}
	return id.String()
}
