package pawl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// Context is what a workflow's body gets. It names the run, and its Done channel is closed when the body is stopped.
// Its methods are those of a context, so that it can be passed to code that computes; I/O belongs in a [Step]. A call
// with a nil Context panics, as the calls of package context do.
type Context interface {
	context.Context
	of() *branch
}

// branchOf returns the branch of a Context.
func branchOf(ctx Context) *branch {
	if ctx == nil {
		panic("pawl: the Context is nil: pass on the one that the body, or its branch, was called with")
	}
	return ctx.of()
}

// branch is the Context of one goroutine of a body.
type branch struct {
	*body.Thread
	host   *host
	def    *definition
	values context.Context // the context that the propagators made of the run's headers
}

func (b *branch) of() *branch { return b }

// on returns the Context of another branch, or another scope, of the same body.
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
			"id", "body-call-invalid",
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

// closing returns how a run ends whose body has returned. A call that made no sense fails the run even if the body
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

// failing returns how a run ends whose body returned an error. If a step failed because the run had no time left, the
// run ends as timed out, as it would have at its deadline.
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

// Version makes it possible to change code while runs are open. It returns the version of a change that this run goes
// by: the newest, maxVersion, for runs that come here first with the new code, which is recorded; minVersion for runs
// that were beyond this point before the change was known. If several goroutines of a body work at once, it waits
// until all others wait.
//
//	if v, err := pawl.Version(ctx, "gift wrap", 1, 2); v >= 2 { … the new steps … }
//
// If minVersion is above what a run has recorded, the code for it is gone: the run waits with a [ChangedError].
func Version(ctx Context, change string, minVersion, maxVersion int) (int, error) {
	b := branchOf(ctx)
	if err := checkName(change); err != nil {
		return 0, b.invalid(err, "version %q", change)
	}
	if minVersion > maxVersion {
		return 0, b.invalid(fmt.Errorf("%d is above %d", minVersion, maxVersion), "version %q", change)
	}
	return b.Version(change, minVersion, maxVersion)
}

// Now returns a time that is the same each time the body is called: the latest end of what the body has waited for, a
// step or a branch, alone or among others; where it has waited for nothing yet, the run's start. It changes only when
// the body waits.
func Now(ctx Context) time.Time { return branchOf(ctx).Now().Std() }

// Random returns a source of random numbers that gives the same ones each time the body is called. It panics in a
// step's function: an attempt that is made again would get other numbers.
func Random(ctx Context) *rand.Rand {
	seed := branchOf(ctx).Draw("pawl.Random")
	// The generator must give the same numbers each time, so it cannot be a cryptographic one.
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(seed[:8]), binary.BigEndian.Uint64(seed[8:16])))
}

// UUID returns a UUID, version 8, that is the same each time the body is called. It panics in a step's function: an
// attempt that is made again would get another one. Use the IdempotencyKey of [Attempt] there.
func UUID(ctx Context) string {
	b := branchOf(ctx).Draw("pawl.UUID")
	b[6], b[8] = 0x80|b[6]&0x0f, 0x80|b[8]&0x3f
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Info describes the run.
func Info(ctx Context) client.RunInfo {
	b := branchOf(ctx)
	return runInfo(b.Run(), b.Head())
}

func runInfo(id core.RunID, h *engine.Head) client.RunInfo {
	run := id.String()
	info := client.RunInfo{
		ID: run, Workflow: h.Workflow, WorkflowID: h.WorkflowID, FirstID: run, Attempt: h.Chain.Attempt,
		StartedAt: h.StartedAt.Std(), Deadline: h.Execution.At.Earlier(h.Deadline.At).Std(),
		Headers: h.Headers.Map(),
	}
	if h.Parent.Run != (core.RunID{}) {
		info.ParentID = h.Parent.Run.String()
	}
	if h.Chain.First != (core.RunID{}) {
		info.FirstID = h.Chain.First.String()
	}
	return info
}

// ContinueAsNew ends the run and starts the next one of its chain, with that input and an empty history. Return it from
// the body:
//
//	return out, pawl.ContinueAsNew(ctx, next)
//
// The new run has its own run timeout; the execution timeout covers both.
func ContinueAsNew[In any](ctx Context, in In) error {
	b := branchOf(ctx)
	what, at := "the input to go on with", place{kind: kindInput, workflow: b.Head().Workflow}
	input, err := b.encode(b.host.codec, what, at, in)
	if err != nil {
		return err
	}
	return &continueError{input}
}

type continueError struct{ input []byte }

func (e *continueError) Error() string { return "the run continues as a new one" }

// SetLabel changes a label of the run, from the body; an empty value removes it. The run keeps the label as it was set
// last: a body that is called again does not set it back. See [Labels].
func SetLabel(ctx Context, key, value string) error {
	b := branchOf(ctx)
	change, err := core.MakeLabels(map[string]string{key: value})
	if err != nil {
		return b.invalid(err, "set label")
	}
	return b.Label(key, change)
}

// State is what runs publish for people and programs that look at them: how far they are, in a value of type T. Declare
// it once, for the bodies that set it and for those who read it:
//
//	var Progress pawl.State[Percent]
//
// Its zero value is ready for use. A run has one state. Each run of a chain begins without one.
type State[T any] struct{}

// Set publishes what the run is at. The last one counts. It is recorded with what the body does next, and costs no
// commit of its own. A body that is called again does not publish a value twice.
func (State[T]) Set(ctx Context, v T) error {
	b := branchOf(ctx)
	value, err := b.encode(b.host.codec, "the state", b.at(kindState, ""), v)
	if err != nil {
		return b.invalid(err, "set state")
	}
	return b.Publish(value)
}

// Get returns what a run published last. The run is named by its run id or its workflow id, and may have ended. If it
// has published nothing, Get returns the zero value. Errors: ErrNotFound, and what the codec says.
func (State[T]) Get(ctx context.Context, c Client, id string) (T, error) {
	var zero T
	if err := usable(ctx, c); err != nil {
		return zero, err
	}
	d, err := c.DescribeRun(ctx, id)
	if err != nil {
		return zero, err
	}
	return decode[T](ctx, c.Codec(), "the state", placeOf(kindState, d.ID, d.Workflow, ""), d.State)
}

// Logger returns [Config.Log] for a body, with the run's id and workflow. When a body is called again, it logs nothing
// for the part it has already done.
func Logger(ctx Context) *slog.Logger {
	b := branchOf(ctx)
	return slog.New(&bodyLog{b.host.log.Handler(), b}).With("run", b.Run().String(), "workflow", b.Head().Workflow)
}

// bodyLog drops what a branch logs while it repeats what is recorded.
type bodyLog struct {
	slog.Handler
	branch *branch
}

func (l *bodyLog) Enabled(ctx context.Context, level slog.Level) bool {
	return !l.branch.Replays() && l.Handler.Enabled(ctx, level)
}

func (l *bodyLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &bodyLog{l.Handler.WithAttrs(attrs), l.branch}
}

func (l *bodyLog) WithGroup(name string) slog.Handler {
	return &bodyLog{l.Handler.WithGroup(name), l.branch}
}
