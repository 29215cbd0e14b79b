package core

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/policy"
)

// Teller turns a run's entries, given in order from the first on, into events.
type Teller struct {
	run     *Run
	seq     int
	started Time // the start of the attempt that the current record ends
	waits   bool // run.waiting was told and still holds
	names   map[StepID]itemNames
}

// itemNames are the names of a group's items, as they were when the run had so many steps.
type itemNames struct {
	names []string
	steps int
}

// ItemName returns the name of the item that a step is, empty if it has none.
func (t *Teller) ItemName(id StepID) string {
	s := &t.run.Steps[id]
	group := GroupOf(t.run, s)
	if group == NoStep || s.Item < 0 || t.run.def == nil || t.run.def.ItemNames == nil {
		return ""
	}
	known, asked := t.names[group]
	if int(s.Item) >= len(known.names) && (!asked || known.steps < len(t.run.Steps)) {
		known = itemNames{t.run.def.ItemNames(t.run, &t.run.Steps[group]), len(t.run.Steps)}
		if t.names == nil {
			t.names = map[StepID]itemNames{}
		}
		t.names[group] = known
	}
	if int(s.Item) >= len(known.names) {
		return ""
	}
	return known.names[s.Item]
}

// ItemName returns the name of the item that a step of a run is, empty if it has none. It asks the definition each
// time.
func ItemName(r *Run, id StepID) string { return (&Teller{run: r}).ItemName(id) }

// NewTeller returns a teller for a run of which nothing is known yet. Without its definition the steps of a flow have
// no names.
func NewTeller(id RunID, def *Definition) *Teller {
	return &Teller{run: &Run{ID: id, def: def}}
}

// Run returns the state after the entries told so far. It is the teller's own.
func (t *Teller) Run() *Run { return t.run }

// Events folds the run's next entry and returns its events.
func (t *Teller) Events(e Entry) []Event {
	var out []Event
	for _, rec := range e.Records {
		if started, ok := rec.(AttemptEnded); ok {
			t.started = t.run.Steps[started.Step].Started
		}
		Apply(t.run, e.At, rec)
		switch rec.(type) {
		case DeadlineMoved, StepPolicy:
			t.amend(out, rec)
		default:
			out = t.tell(out, e.At, rec)
		}
	}
	t.run.finish(e.At)
	t.run.forgetDecider()
	if waits := t.run.Phase == RunWaiting; waits != t.waits {
		if t.waits = waits; waits {
			out = append(out, t.event(e.At, EventRunWaiting))
		}
	}
	for i := range out {
		t.seq++
		out[i].Seq = t.seq
		out[i].Data = t.shown(&out[i])
	}
	return out
}

// shown returns the form of a payload that an event shows.
func (t *Teller) shown(ev *Event) []byte {
	switch ev.Type {
	case EventRunStarted, EventRunScheduled, EventRunQueued:
		return t.run.def.ShownInput(ev.Data)
	default:
		return t.run.def.ShownValue(ev.Data)
	}
}

// event returns an event of the run.
func (t *Teller) event(at Time, kind string) Event {
	return Event{Run: t.run.ID, At: at, Offset: at.Sub(t.run.CreatedAt), Type: kind, StepID: NoStep}
}

// of returns an event of a step.
func (t *Teller) of(at Time, kind string, id StepID) Event {
	ev := t.event(at, kind)
	if id != NoStep {
		ev.StepID, ev.Step, ev.ItemName = id, t.run.Steps[id].Key(), t.ItemName(id)
	}
	return ev
}

// attempt returns an event of a step's last attempt.
func (t *Teller) attempt(at Time, kind string, id StepID) Event {
	ev := t.of(at, kind, id)
	ev.Attempt = t.run.Steps[id].Attempt
	return ev
}

// amend adds the changes of an operation to its event.
func (t *Teller) amend(out []Event, rec Record) {
	if len(out) == 0 {
		return
	}
	if moved, ok := rec.(DeadlineMoved); ok {
		ev := &out[len(out)-1]
		ev.Limit, ev.Deadline = moved.Limit, moved.At
	}
}

func (t *Teller) tell(out []Event, at Time, rec Record) []Event {
	switch rec := rec.(type) {
	case RunCreated:
		ev := t.event(at, EventRunStarted)
		ev.Data, ev.Actor, ev.Why, ev.Name = rec.Input, rec.Actor, rec.Reason, rec.Workflow
		if rec.StartAt != 0 {
			ev.Type, ev.NextAt = EventRunScheduled, rec.StartAt
		} else if t.run.InQueue() {
			ev.Type = EventRunQueued
		}
		return append(out, t.bounded(ev))
	case RunQueued, RunHeld, RunStarted:
		return append(out, t.tellAdmission(at, rec))
	case RunEnded:
		ev := t.event(at, eventRun+rec.Phase.String())
		ev.Phase, ev.Failure, ev.Data, ev.Child = rec.Phase.String(), t.run.Failure, t.run.Output, rec.Next
		return append(out, ev)
	case RunReopened:
		return append(out, t.bounded(t.event(at, EventRunResumed)))
	case RunClosing, RunStopping:
		return t.tellEnding(out, at, rec)
	case PauseBegan:
		return append(out, t.event(at, EventRunPaused))
	case PauseEnded:
		return append(out, t.bounded(t.event(at, EventRunResumed)))
	case SignalKept:
		if rec.Carried || rec.Back {
			return out // its event was made when it was received
		}
		ev := t.event(at, EventSignalReceived)
		ev.Name, ev.Data, ev.Actor, ev.Why = rec.Name, rec.Payload, rec.Actor, rec.Reason
		return append(out, ev)
	case Turned:
		if rec.Value != nil {
			out = append(out, t.published(at, rec.Value))
		}
		return out
	case StatePublished:
		return append(out, t.published(at, rec.Value))
	case UpdateAccepted:
		ev := t.of(at, EventUpdateAccepted, rec.Step)
		ev.Name = rec.Name
		return append(out, ev)
	case UpdateAnswered:
		if rec.Carried {
			return out
		}
		ev := t.event(at, EventUpdateAnswered)
		ev.Name, ev.Data, ev.Failure = rec.Name, rec.Output, rec.Failure
		return append(out, ev)
	case Operated:
		ev := t.of(at, eventOperation+rec.Op.String(), rec.Step)
		ev.Actor, ev.Why = rec.Actor, rec.Reason
		return append(out, ev)
	case StepWarned:
		ev := t.of(at, EventStepWarning, rec.Step)
		if rec.Step == NoStep {
			ev.Type = EventRunWarning
		}
		ev.Limit, ev.Deadline = rec.Limit, t.run.warnedOf(rec)
		return append(out, ev)
	default:
		return t.tellStep(out, at, rec)
	}
}

// tellAdmission reports what happens to a run that waits, for its start or for its queue.
func (t *Teller) tellAdmission(at Time, rec Record) Event {
	switch rec := rec.(type) {
	case RunQueued:
		return t.event(at, EventRunQueued)
	case RunHeld:
		ev := t.event(at, EventRunHeld)
		ev.NextAt, ev.Why = rec.Held.Until, rec.Held.Why()
		return ev
	default:
		return t.bounded(t.event(at, EventRunStarted))
	}
}

// bounded adds the run's earlier deadline.
func (t *Teller) bounded(ev Event) Event {
	run, execution := t.run.Deadline.At, t.run.Execution.At
	if run != 0 {
		ev.Limit, ev.Deadline = policy.LimitRun, run
	}
	if execution != 0 && (run == 0 || execution <= run) {
		ev.Limit, ev.Deadline = policy.LimitExecution, execution
	}
	return ev
}

func (t *Teller) tellStep(out []Event, at Time, rec Record) []Event {
	switch rec := rec.(type) {
	case StepBegan:
		return t.tellBegan(out, at)
	case StepOmitted:
		ev := t.of(at, eventStep+rec.Phase.String(), StepID(len(t.run.Steps)-1))
		ev.Phase, ev.Why, ev.Data = rec.Phase.String(), rec.Reason, rec.Output
		return append(out, ev)
	case AttemptReady:
		return append(out, t.attempt(at, EventStepRetried, rec.Step))
	case AttemptHeld:
		if rec.Held.Reason == HeldNone {
			return out
		}
		ev := t.attempt(at, EventAttemptHeld, rec.Step)
		ev.NextAt, ev.Why = rec.Held.Until, rec.Held.Why()
		return append(out, ev)
	case AttemptStarted:
		ev := t.attempt(at, EventAttemptStarted, rec.Step)
		ev.Worker, ev.Child = rec.Worker, rec.Child
		if rec.Deadline != 0 {
			ev.Limit, ev.Deadline = policy.LimitDeadline, rec.Deadline
		}
		return append(out, ev)
	case AttemptBeat:
		ev := t.attempt(at, EventAttemptHeartbeat, rec.Step)
		ev.Data = rec.Details
		if rec.Output {
			ev.Name = "output"
		}
		return append(out, ev)
	case AttemptEnded:
		return t.tellEnded(out, at, rec)
	case AttemptStopped:
		switch {
		case rec.Abandoned:
			return append(out, t.attempt(at, EventAttemptAbandoned, rec.Step))
		case rec.Killed:
			return append(out, t.attempt(at, EventAttemptKilled, rec.Step))
		}
		return out
	case StepEnded:
		s := &t.run.Steps[rec.Step]
		if rec.Phase == StepSucceeded && (s.Spec.Kind == KindSleep || s.Spec.Kind == KindWait) {
			out = append(out, t.of(at, EventStepResumed, rec.Step))
		}
		ev := t.attempt(at, eventStep+rec.Phase.String(), rec.Step)
		ev.Phase, ev.Reason, ev.Failure, ev.Data = rec.Phase.String(), rec.Reason, rec.Failure, rec.Output
		ev.unmatched = Unmatched(s)
		return append(out, ev)
	default: // RunHooks, CancelAsked, StepReset: told by what they lead to
		return out
	}
}

func (t *Teller) tellBegan(out []Event, at Time) []Event {
	s := &t.run.Steps[len(t.run.Steps)-1]
	ev := t.of(at, EventStepScheduled, s.ID)
	d := due{}.earlier(policy.LimitScheduleToClose, s.ScheduleToClose).earlier(policy.LimitDeadline, s.Deadline)
	if d.at != 0 {
		ev.Limit, ev.Deadline = d.limit, d.at
	}
	out = append(out, ev)
	switch s.Spec.Kind {
	case KindSleep:
		ev = t.of(at, EventStepSuspended, s.ID)
		ev.NextAt = s.NextAt
	case KindWait:
		ev = t.of(at, EventStepSuspended, s.ID)
		ev.Name = s.Spec.Event + s.Spec.Update + strings.Join(s.Spec.Any, ", ")
		if s.NextAt != 0 {
			ev.Limit, ev.Deadline = policy.LimitWait, s.NextAt
		}
	default:
		return out
	}
	return append(out, ev)
}

func (t *Teller) tellEnded(out []Event, at Time, rec AttemptEnded) []Event {
	ev := t.attempt(at, EventAttemptEnded, rec.Step)
	ev.Failure, ev.Why = rec.Failure, rec.Note
	if f := rec.Failure; f != nil {
		ev.Limit = f.Limit
		if f.Kind == policy.KindLost {
			ev.Type = EventAttemptLost
		}
	}
	if t.started != 0 {
		ev.Took = at.Sub(t.started)
	}
	out = append(out, ev)
	if rec.Retry {
		next := t.of(at, EventStepRetryScheduled, rec.Step)
		next.Attempt, next.NextAt = ev.Attempt+1, rec.NextAt
		out = append(out, next)
	}
	return out
}

// tellEnding reports that a run stops.
func (t *Teller) tellEnding(out []Event, at Time, rec Record) []Event {
	if stopping, asked := rec.(RunStopping); asked && stopping.Until != 0 {
		ev := t.event(at, EventRunCompensating)
		ev.NextAt, ev.Failure = stopping.Until, stopping.Failure
		return append(out, ev)
	}
	return t.tellStopping(out, at)
}

// tellStopping reports which steps were told to stop and are not gone, if there are any.
func (t *Teller) tellStopping(out []Event, at Time) []Event {
	names := stoppingSteps(t.run)
	if len(names) == 0 {
		return out
	}
	ev := t.event(at, EventRunStopping)
	const most = 3
	if more := len(names) - most; more > 1 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	ev.Why = "told to stop: " + strings.Join(names, ", ") + "; hooks and the end wait until that is gone"
	return append(out, ev)
}

// published makes the event for the value that a run shows.
func (t *Teller) published(at Time, value []byte) Event {
	ev := t.event(at, EventStatePublished)
	ev.Data = value
	return ev
}
