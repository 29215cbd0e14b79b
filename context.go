package pawl

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Context is what a workflow's body gets. It names the run, and its Done channel is closed when the body is stopped.
// Its methods are those of a context, so that it can be passed to code that computes; I/O belongs in a [Step].
type Context interface {
	context.Context
	of() *branch
}

// branch is the Context of one goroutine of a body.
type branch struct {
	*body.Thread
	host   *host
	def    *definition
	values context.Context // what the propagators made of the run's headers
}

func (b *branch) of() *branch { return b }

// on is the Context of another branch, or another scope, of the same body.
func (b *branch) on(t *body.Thread) *branch {
	return &branch{Thread: t, host: b.host, def: b.def, values: b.values}
}

// Value returns what the propagators have put into the context, else what the context of Open held.
func (b *branch) Value(key any) any { return b.values.Value(key) }

// stepFunc is a step's function, whose result is encoded.
type stepFunc = body.Func

// invalid returns the error of a call that makes no sense. The run fails even if the body ignores the
// error, since the body then no longer does what its author meant.
func (b *branch) invalid(err error, format string, args ...any) error {
	err = invalid(err, format, args...)
	if b.NoteInvalid(err) {
		b.host.log.Error("a workflow's body made a call that is invalid, and its run will fail",
			"run", b.Run().String(), "error", err)
	}
	return err
}

// call runs a function in a branch that Go or Map has begun, and ends the branch. It passes the result to set
// first.
func call[T any](b *branch, fn func(ctx Context) (T, error), set func(T, error)) {
	var v T
	err := errors.New("the branch ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
	defer func() {
		if p := recover(); p != nil {
			err = newPanic(p, debug.Stack())
		}
		set(v, err)
		b.EndBranch(body.OutcomeOf(err))
	}()
	v, err = fn(b)
}

// closing is how a run ends whose body has returned. A call that made no sense fails the run even if the body
// ignored its error.
func (h *host) closing(d *definition, out []byte, err, invalid error) core.Close {
	var next *continueError
	if err == nil {
		err = h.tooLarge("the result of workflow "+d.name, out)
	}
	if invalid != nil && (err == nil || errors.As(err, &next)) {
		err = NonRetryable(invalid)
	}
	switch {
	case errors.As(err, &next):
		return core.Close{Phase: core.RunContinued, Output: next.input}
	case err != nil:
		return failing(err)
	default:
		return core.Close{Phase: core.RunSucceeded, Output: out}
	}
}

// failing is how a run ends whose body returned an error. If a step failed because the run had no time left,
// the run ends as timed out, as it would have at its deadline.
func failing(err error) core.Close {
	var step *StepError
	if errors.As(err, &step) && step.Failure != nil {
		switch step.Failure.Limit {
		case policy.LimitExecution, policy.LimitRun:
			f := *step.Failure
			f.Message = err.Error()
			return core.Close{Phase: core.RunTimedOut, Failure: &f, From: stepsOf(err)}
		default:
		}
	}
	return core.Close{Phase: core.RunFailed, Failure: failureOf(err), From: stepsOf(err)}
}
