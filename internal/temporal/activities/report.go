package activities

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// ErrStale answers a report on an attempt that has ended.
var ErrStale = serviceerror.NewNotFound(
	"invalid activityID or activity already timed out or invoking workflow is completed")

// End takes the report that an attempt has ended. It returns when that is durable.
func (q *Queues) End(ctx context.Context, t Token, end core.TaskEnded) error {
	a, err := q.attempt(ctx, t)
	if err != nil {
		return err
	}
	end.Step, end.Attempt = t.Attempt.Step, t.Attempt.Attempt
	if details := a.pulse.End(); end.Details == nil {
		end.Details = details
	}
	done := make(chan error, 1)
	q.engine.Deliver(t.Attempt.Run, end, func(err error) { done <- err })
	err = answerOf(<-done)
	if err == nil || errors.Is(err, ErrStale) {
		q.mu.Lock()
		q.forget(t.Attempt)
		q.mu.Unlock()
	}
	return err
}

// Beat takes a heartbeat, and returns how the attempt is doing.
func (q *Queues) Beat(ctx context.Context, t Token, details []byte) (engine.AttemptState, error) {
	a, err := q.attempt(ctx, t)
	if err != nil {
		return engine.AttemptState{}, err
	}
	a.pulse.Heartbeat(details)
	return q.State(ctx, t)
}

// State returns how an attempt is doing.
func (q *Queues) State(ctx context.Context, t Token) (engine.AttemptState, error) {
	state, err := q.engine.Attempt(ctx, t.Attempt)
	if err == nil && state.Task.Secret != t.Secret {
		err = ErrStale
	}
	return state, answerOf(err)
}

// attempt returns the attempt of a token. It may be one that the engine has not looked at since it was opened.
func (q *Queues) attempt(ctx context.Context, t Token) (*attempt, error) {
	q.mu.Lock()
	a := q.attempts[t.Attempt]
	q.mu.Unlock()
	if a == nil {
		state, err := q.State(ctx, t)
		if err != nil {
			return nil, err
		}
		q.mu.Lock()
		if a = q.attempts[t.Attempt]; a == nil {
			a = q.add(&state.Task)
		}
		q.mu.Unlock()
	}
	if a.secret != t.Secret {
		return nil, ErrStale
	}
	return a, nil
}

// answerOf returns what a worker is told of an error of the engine.
func answerOf(err error) error {
	if err == nil || errors.Is(err, ErrStale) {
		return err
	}
	switch api.CodeOf(err) {
	case api.CodeStale, api.CodeRunClosed, api.CodeNotFound, api.CodeConflict:
		return ErrStale
	default:
		return err
	}
}
