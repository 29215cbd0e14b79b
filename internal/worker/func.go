package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// FuncExecutor makes an executor of a Go function, which returns JSON or an error. The function must return when its
// context is done: there is no way to stop a goroutine from outside.
//
// An error that is or wraps a *policy.Failure fails the attempt as that failure says. Any other error is of kind error,
// and its type is the Go type of the innermost error where that has a name of its own, so that a retry policy can
// list it as non-retryable.
func FuncExecutor(fn func(ctx context.Context, t core.Task, alive Alive) ([]byte, error)) Executor {
	return function(fn)
}

type function func(ctx context.Context, t core.Task, alive Alive) ([]byte, error)

func (fn function) Execute(ctx context.Context, t core.Task, alive Alive) Result {
	output, err := fn(ctx, t, alive)
	if err != nil {
		return Result{Output: output, Failure: failureOf(ctx, err)}
	}
	return Result{Output: output}
}

func failureOf(ctx context.Context, err error) *policy.Failure {
	var said *policy.Failure
	switch {
	case errors.As(err, &said):
		f := *said
		if f.Kind == 0 {
			f.Kind = policy.KindError
		}
		if said.Error() != err.Error() { // what was wrapped around it says more
			f.Message = err.Error()
		}
		return &f
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		return Stopped(ctx)
	}
	return &policy.Failure{Kind: policy.KindError, Type: errorType(err), Message: err.Error()}
}

// errorType names the innermost error's type, as in fs.PathError; the types of errors.New and fmt.Errorf say nothing.
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
