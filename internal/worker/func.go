package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// FuncExecutor makes an executor from a Go function that returns JSON or an error. The function must return when its
// context is done: a goroutine cannot be stopped from outside.
//
// An error that is or wraps a *policy.Failure fails the attempt with that failure. Any other error is a failure of kind
// error. Its type is the Go type of the innermost error that has a named type, for example fs.PathError. A retry policy
// can list that name as non-retryable.
func FuncExecutor(fn func(ctx context.Context, t core.Task, alive Alive) ([]byte, error)) Executor {
	return function(fn)
}

type function func(ctx context.Context, t core.Task, alive Alive) ([]byte, error)

func (fn function) Execute(ctx context.Context, t *core.Task, alive Alive) Result {
	output, err := fn(ctx, *t, alive)
	if err != nil {
		return Result{Output: output, Failure: failureOf(ctx, err)}
	}
	return Result{Output: output}
}

func failureOf(ctx context.Context, err error) *policy.Failure {
	var failure *policy.Failure
	switch {
	case errors.As(err, &failure):
		f := *failure
		if f.Kind == 0 {
			f.Kind = policy.KindError
		}
		if failure.Error() != err.Error() { // the wrapping error adds to the message
			f.Message = err.Error()
		}
		return &f
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		return Stopped(ctx)
	}
	return &policy.Failure{Kind: policy.KindError, Type: errorType(err), Message: err.Error()}
}

// errorType returns the type's name of the innermost error, for example fs.PathError. It ignores the types of
// errors.New and fmt.Errorf, which reveal nothing about the error.
func errorType(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		if name := typeName(next); name == "" {
			break
		}
		err = next
	}
	return typeName(err)
}

func typeName(err error) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	if strings.HasPrefix(name, "errors.") || strings.HasPrefix(name, "fmt.") {
		return ""
	}
	return name
}
