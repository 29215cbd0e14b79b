package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// Why a task's context is done: context.Cause returns a *RevokedError, which matches ErrRevoked, or ErrClosing.
var (
	ErrRevoked = errors.New("worker: the attempt was revoked")
	ErrClosing = errors.New("worker: the worker closes")
)

// RevokedError is the cause of a context whose attempt has ended without its work: a limit fired, or it was cancelled.
type RevokedError struct{ Kind policy.Kind }

func (e *RevokedError) Error() string { return ErrRevoked.Error() + " (" + e.Kind.String() + ")" }

// Is reports whether the target is ErrRevoked.
func (e *RevokedError) Is(target error) bool { return target == ErrRevoked }

type deadlineKey struct{}

// attemptContext tells Remaining when the attempt's time is over. It is no context deadline: an operator may extend the
// attempt's while it runs, and a context cannot take a deadline back.
type attemptContext struct {
	context.Context
	end time.Time // with a monotonic reading
}

func (c *attemptContext) Value(key any) any {
	if key == (deadlineKey{}) {
		return c.end
	}
	return c.Context.Value(key)
}

// WithEnd returns the context of an attempt whose time is over at an instant, which Remaining reads.
func WithEnd(ctx context.Context, end time.Time) context.Context { return &attemptContext{ctx, end} }

// Remaining returns how long the attempt of a task's context has left of its deadline, as it was when the attempt
// started; false: it has none, or ctx is not a task's. It is never negative.
func Remaining(ctx context.Context) (time.Duration, bool) {
	end, ok := ctx.Value(deadlineKey{}).(time.Time)
	if !ok {
		return 0, false
	}
	return max(time.Until(end), 0), true
}

// Stopped is the failure of work that ended because its context was done. Nobody sees it, except where a caller runs
// an executor without a pool: a pool reports TaskStopped, or a lost attempt.
func Stopped(ctx context.Context) *policy.Failure {
	return &policy.Failure{Kind: policy.KindCancelled, Type: "stopped", Message: context.Cause(ctx).Error()}
}

// BadPayload is the failure of a task whose payload an executor cannot use. No retry would change it.
func BadPayload(taskType string, err error) Result {
	return Result{Failure: &policy.Failure{
		Kind: policy.KindFailed, Type: "invalid_payload", NonRetryable: true,
		Message: taskType + ": " + err.Error(),
	}}
}
