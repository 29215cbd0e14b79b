package client

import (
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// HistoryEvent is one line of a run's history.
type HistoryEvent struct {
	Number   int // the number in the run, from 1
	At       time.Time
	Type     string // "run.started", "step.scheduled", "attempt.ended", "operation.pause" and the like
	Step     string // empty if it is about the run
	Attempt  int
	Phase    Phase // the phase in which the run or the step ended
	Reason   policy.Reason
	Limit    policy.LimitKind // the limit that it is about
	Deadline time.Time        // when that limit ends
	Next     time.Time        // the next attempt, the end of a sleep, a delayed start
	Took     time.Duration    // the time that an attempt took
	Worker   string
	Child    string // the child run that an attempt started, or the next run of the chain
	Name     string // the name of an event
	Actor    string
	Why      string // the actor's reason
	Failure  *policy.Failure
	Data     []byte // JSON: an input, an output, a payload, a heartbeat's details
	Text     string // the entry in a sentence
}

func eventOf(ev *api.Event) HistoryEvent {
	return HistoryEvent{
		Number: ev.Seq, At: ev.Time.Std(), Type: ev.Type, Step: ev.Step, Attempt: ev.Attempt, Phase: Phase(ev.Phase),
		Reason: reasonOf(ev.Reason), Limit: limitNamed(ev.Limit), Deadline: ev.Deadline.Std(), Next: ev.NextAt.Std(),
		Took: time.Duration(ev.DurationMs) * time.Millisecond, Worker: ev.Worker, Child: ev.Child, Name: ev.Name,
		Actor: ev.Actor, Why: ev.Why, Failure: ev.Failure, Data: ev.Data, Text: ev.Text,
	}
}
