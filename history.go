package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// HistoryEvent is one thing that happened to a run: a line of its history.
type HistoryEvent struct {
	Number   int // from 1 in each run
	At       time.Time
	Type     string // "run.started", "step.scheduled", "attempt.ended", "operation.pause" and the like
	Step     string // empty: it is about the run
	Attempt  int
	Phase    Phase // that the run or the step ended in
	Reason   policy.Reason
	Limit    policy.LimitKind // that it is about
	Deadline time.Time        // when that limit ends
	Next     time.Time        // the next attempt, the end of a sleep, a delayed start
	Took     time.Duration    // of an attempt
	Worker   string
	Child    string // the child run that an attempt started, or the next run of the chain
	Name     string // of an event
	Actor    string
	Why      string // the actor's reason
	Failure  *Failure
	Data     []byte // JSON: an input, an output, a payload, a heartbeat's details
	Text     string // what happened, in a sentence
}

// HistoryEvents returns what has happened to a run, in order, without the first events: those up to the number after.
func (e *Engine) HistoryEvents(ctx context.Context, id string, after int) ([]HistoryEvent, error) {
	r, err := onRun(ctx, e, id, func(run core.RunID) (*api.Run, error) { return e.explained.Run(ctx, run.String()) })
	if err != nil {
		return nil, missing(err, "history", id)
	}
	var out []HistoryEvent
	enough := errors.New("enough")
	if after >= r.Events {
		return nil, nil
	}
	err = e.explained.Watch(ctx, r.Run, after, func(ev api.Event) error {
		out = append(out, historyEventOf(&ev))
		if ev.Seq >= r.Events {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, missing(err, "history", id)
	}
	return out, nil
}

// missing names the run that was asked for in the error about one that is not there.
func missing(err error, op, id string) error {
	if errors.Is(err, ErrNotFound) {
		return &api.Error{Code: api.CodeNotFound, Op: op, ID: id, Message: "there is no such run", Err: err}
	}
	return err
}

func historyEventOf(ev *api.Event) HistoryEvent {
	return HistoryEvent{
		Number: ev.Seq, At: ev.Time.Std(), Type: ev.Type, Step: ev.Step, Attempt: ev.Attempt, Phase: Phase(ev.Phase),
		Reason: reasonOf(ev.Reason), Limit: limitNamed(ev.Limit), Deadline: ev.Deadline.Std(), Next: ev.NextAt.Std(),
		Took: time.Duration(ev.DurationMs) * time.Millisecond, Worker: ev.Worker, Child: ev.Child, Name: ev.Name,
		Actor: ev.Actor, Why: ev.Why, Failure: ev.Failure, Data: ev.Data, Text: ev.Text,
	}
}
