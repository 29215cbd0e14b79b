package core

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// Some runs have no steps: they keep a value, and wait for events and for an instant, all their life. A schedule is
// one. When an event comes, or the instant, the decider makes one turn: it takes the events, gives the new value and
// the next instant, and starts or stops other runs. All of that is one entry, with the messages to these runs, so each
// of them is started once. See [Definition.Turns].
//
// Such a run counts as pending, until its next instant: [Run.StartAt].

type (
	// Turn ends a decision of a run that takes turns.
	Turn struct {
		Value []byte // JSON; nil: unchanged
		Wake  Time   // when it wants its next turn, whatever happens before; zero: never
		Took  int    // how many of the kept events it has taken, the oldest first
	}

	// StartRun starts another run, of which this one is not the parent. As an effect it asks the shell to do so.
	StartRun struct {
		WorkflowID string
		Start      RunStart
	}

	// Store asks for a definition to be stored before a run of it is started. As an effect it asks the shell to do so.
	Store struct {
		ID         DefinitionID
		Kind, Name string
		Source     []byte
	}

	// StopRun cancels the open run of a workflow id, if there is one. As an effect it asks the shell to do so.
	StopRun struct {
		WorkflowID string
		Reason     string
	}
)

func (Turn) command()     {}
func (Store) command()    {}
func (StartRun) command() {}
func (StopRun) command()  {}
func (Store) effect()     {}
func (StartRun) effect()  {}
func (StopRun) effect()   {}

// RunStart is the content of a message that starts a run of that workflow id, unless one was already started with its
// key. From gets the event SignalRefused if the run cannot be started, and learns of its end through Start.Notify.
//
//content:8
type RunStart struct {
	Definition DefinitionID // stored by now
	Workflow   string
	Key        string
	Input      []byte
	From       string        // the workflow id of the run that starts it
	Notify     bool          // it is told of the end
	Firing     Time          // the firing that the run is for; zero if there is none
	Zone       string        // the time zone of that firing
	Timeout    time.Duration // the limit of the run, from when it begins; zero: the workflow's
	Deadline   RunLimit      // an instant that it does not live past
	Labels     Labels
	Headers    Headers
	Queue      RunQueue
	Actor      string
	Reason     string
	// AfterFailure: the last run that From started before has failed.
	AfterFailure bool
	Top          RunID // the family of From: whichever process carries that on carries this run on
}

// RunStop is the content of a message that cancels a run.
//
//content:9
type RunStop struct{ Actor, Reason string }

// SignalRefused returns the name of the event by which a run learns that a run of that workflow id was not started as
// it has asked.
func SignalRefused(workflowID string) string { return "pawl.refused " + workflowID }

// turns reports whether the run takes turns.
func (r *Run) turns() bool { return r.def != nil && r.def.Turns }

// wantsTurn reports whether there is a reason for a turn: the run has had none, an event waits, or its instant has
// come.
func (r *Run) wantsTurn(now Time) bool {
	return !r.turned || len(r.Signals) > 0 || r.StartAt != 0 && r.StartAt <= now
}

// turn gives the run a turn if there is a reason for one, and reports whether to go on.
func (m *machine) turn() bool {
	if m.r.PausedAt != 0 || !m.r.wantsTurn(m.now) {
		return false
	}
	for _, cmd := range m.r.decide().Decide(m.r, nil, m.now) {
		switch cmd := cmd.(type) {
		case Turn:
			m.emit(Turned(cmd))
		case Store:
			m.effect(cmd)
		case StartRun:
			m.effect(cmd)
		case StopRun:
			m.effect(cmd)
		case Close:
			m.close(cmd)
		default: // it has neither steps nor a body
		}
	}
	return m.r.Closing != nil
}

// applyTurned folds a turn.
func (r *Run) applyTurned(at Time, rec Turned) {
	r.Phase, r.StartAt, r.turned = RunPending, rec.Wake, true
	r.Signals = r.Signals[min(rec.Took, len(r.Signals)):]
	if len(r.Signals) == 0 {
		r.Signals = nil
	}
	if rec.Value != nil {
		r.Published = &Published{Value: rec.Value, At: at}
	}
}

// Limit returns the limit of the run, from when it begins; nil: the workflow's.
func (a *RunStart) Limit() *policy.Limit {
	if a.Timeout <= 0 {
		return nil
	}
	return &policy.Limit{After: a.Timeout, Origin: a.From}
}
