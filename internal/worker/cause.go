package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// Why a task's context is done: context.Cause returns a *RevokedError, which matches ErrRevoked, or ErrClosing.
var (
	ErrRevoked = errors.New("worker: the attempt was revoked")
	ErrClosing = errors.New("worker: stopped")
)

// RevokedError is the cause of a context whose attempt has ended for the engine while its work still ran: a limit
// fired, or the attempt was cancelled.
type RevokedError struct{ Kind policy.Kind }

func (e *RevokedError) Error() string { return ErrRevoked.Error() + " (" + e.Kind.String() + ")" }

// Is reports whether the target is ErrRevoked, or what users compare with: that a limit fired, or that the step was
// cancelled.
func (e *RevokedError) Is(target error) bool {
	switch {
	case target == ErrRevoked:
		return true
	case e.Kind == policy.KindTimeout:
		return target == error(api.Sentinel(api.CodeTimedOut))
	default:
		return target == error(api.Sentinel(api.CodeRunCancelled))
	}
}

type deadlineKey struct{}

// attemptContext carries the attempt's deadline for Remaining. It does not set a deadline on the context: an operator
// may extend the attempt's deadline while the work runs, and a context's deadline cannot be changed.
type attemptContext struct {
	context.Context
	end time.Time // the end with a monotonic reading
}

func (c *attemptContext) Value(key any) any {
	if key == (deadlineKey{}) {
		return c.end
	}
	return c.Context.Value(key)
}

// WithEnd returns the context of an attempt whose time is over at an instant, which Remaining reads.
func WithEnd(ctx context.Context, end time.Time) context.Context { return &attemptContext{ctx, end} }

// Remaining returns the time until the attempt's deadline, as the deadline was when the attempt started. It is never
// negative. False means that the attempt has no deadline, or that ctx is not the context of a task.
func Remaining(ctx context.Context) (time.Duration, bool) {
	end, ok := ctx.Value(deadlineKey{}).(time.Time)
	if !ok {
		return 0, false
	}
	return max(time.Until(end), 0), true
}

// Stopped returns the failure of work that ended because its context was done. Only a caller that runs an executor
// without a pool sees it: a pool reports TaskStopped or a lost attempt instead.
func Stopped(ctx context.Context) *policy.Failure {
	return &policy.Failure{Kind: policy.KindCancelled, Type: "stopped", Message: context.Cause(ctx).Error()}
}

// BadPayload returns the failure of a task whose payload the executor cannot use. A retry would not help.
func BadPayload(taskType string, err error) Result {
	return Result{Failure: &policy.Failure{
		Kind: policy.KindFailed, Type: "invalid_payload", NonRetryable: true,
		Message: taskType + ": " + err.Error(),
	}}
}
