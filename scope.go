package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// WithCancel returns a Context for a part of a body, and a function that cancels it. That ends the steps, sleeps, event
// waits and child runs which were begun with the Context and have not ended, also those of branches that [Go] and [Map]
// began with it. Attempts that run are told to stop, which may take them a moment longer. What waits for one of them
// gets an error that is [ErrCancelled], and so does every later call with the Context. Calling the function again does
// nothing.
//
// The cancel is recorded: a body that is called again finds the same steps before it and after it. Other than with
// context.WithCancel there is nothing to free, so cancel only what is to end.
func WithCancel(ctx Context) (Context, func()) {
	b := branchOf(ctx)
	t, cancel := b.WithCancel()
	return b.on(t), cancel
}

// Detached returns a Context whose calls go on although the run was asked to cancel or has expired, or a scope of
// [WithCancel] around it was cancelled. Use it to undo what the body has done; see [Compensations].
//
// When a run is cancelled or its time is over, its open steps end, and the call that the body waits in returns an error
// that is [ErrCancelled] or [ErrTimedOut], once the work that was told to stop is gone. Later calls return such an
// error at once, unless their Context is detached. The body has [CompensationTimeout] from then on. The run ends as
// cancelled or timed out whatever the body returns: a value is kept as the run's output, which [Client.DescribeRun]
// shows, and an error of its own as the cause of the run's failure.
func Detached(ctx Context) Context {
	b := branchOf(ctx)
	return b.on(b.Detached())
}

// CompensationTimeout bounds what a body does after its run was cancelled or has expired; see [Detached]. What is open
// when it ends is stopped. The clock stands while no process carries the run, as during an outage or a deploy. Default:
// a minute.
//
// A run whose compensation was not finished, because the time was over or because a step of it did not succeed, has the
// label pawl.compensation=unfinished. The operation retry_run goes on with it: with what has not begun and what did not
// succeed.
func CompensationTimeout[D Amount](after D) Option {
	v, err := amount(after)
	if err == nil && v <= 0 {
		err = fmt.Errorf("%s leaves no time at all", v)
	}
	return func(d *definition) {
		d.note(wrap("compensation timeout", err))
		d.compensation = v
	}
}

// Compensations undo what a body has done when it cannot go on. The zero value is ready for use:
//
//	var undo pawl.Compensations
//	undo.Add(ctx, "refund", func(ctx context.Context) error { return bank.Refund(ctx, order) })
//	err := pawl.Do(ctx, "charge", func(ctx context.Context) error { return bank.Charge(ctx, order) })
//	…
//	if err != nil {
//		return errors.Join(err, undo.Run(ctx))
//	}
//
// Add what undoes a step before the step, as here, where the step may have done its work although it failed: its answer
// was lost, or it was told to stop. What undoes it has to bear that nothing was done then.
//
// Branches of [Go] and [Map] may add to the same Compensations.
type Compensations struct{ undo body.Undo }

var errNilUndo = errors.New("the Compensations are nil: declare them as a variable")

type compensation struct {
	name string
	fn   func(ctx context.Context) error
	opts []StepOption
}

// Add adds a function that undoes something. It becomes a step of that name when it is needed. In a branch, use the
// Context of the branch. The run fails if the name cannot be that of a step.
func (c *Compensations) Add(ctx Context, name string, fn func(ctx context.Context) error, opts ...StepOption) {
	b := branchOf(ctx)
	err := checkName(name)
	switch {
	case c == nil:
		err = errNilUndo
	case err == nil && fn == nil:
		err = errNoFunction
	}
	if err == nil {
		err = b.AddUndo(&c.undo, name, compensation{name, fn, opts})
	}
	if err != nil {
		_ = b.invalid(err, "compensation %q", name) // it makes the run fail
	}
}

// Run runs the functions that were added, each as a step with a detached Context: see [Do] and [Detached]. The last one
// comes first: what a branch has added comes before what its caller had added before the branch began, and of two
// branches the one that began later comes first, whichever of them was faster. All of them run, even if some fail;
// their errors are joined. Afterwards it has none.
//
// What branches of [Go] that have added something are still doing is cancelled, as by [WithCancel], and these branches
// have returned before the first function runs.
//
// In a run that was cancelled or has expired all of them share the time of [CompensationTimeout]: each has an equal
// part of what is left as its [Timeout], unless it was added with one, so that one which hangs does not keep the others
// from running. In a run that goes on they have the limits that they were added with.
func (c *Compensations) Run(ctx Context) error {
	b, detached := branchOf(ctx), Detached(ctx)
	if c == nil {
		return b.invalid(errNilUndo, "compensations")
	}
	var errs []error
	for {
		taken, err := b.TakeUndo(&c.undo)
		if err != nil || len(taken) == 0 {
			return errors.Join(append(errs, err)...)
		}
		for i, t := range taken {
			if u, ok := t.(compensation); ok {
				errs = append(errs, Do(detached, u.name, u.fn, append(b.share(len(taken)-i), u.opts...)...))
			}
		}
	}
}

// share returns the limit of one of several compensations that are to come: its part of the time that is left for all
// of them. While the run does not stop they have no limit.
func (b *branch) share(of int) []StepOption {
	stop := b.Stop()
	if stop == nil {
		return nil
	}
	left := stop.Until.Sub(b.Now()) / time.Duration(of)
	if left <= 0 {
		return nil // the run ends at once
	}
	part := policy.Limit{After: max(left.Truncate(time.Millisecond), time.Millisecond), Origin: core.OriginCompensation}
	return []StepOption{func(o *stepOptions) { o.policy.Set(policy.LimitScheduleToClose, &part) }}
}

// Cancel ends what gives the future its result: its step, or with [Go] all that its branch does. What has ended stays
// as it is. [Future.Get] returns an error that is [ErrCancelled] for a step that was ended so.
func (f *Future[T]) Cancel() {
	if f != nil && f.result != nil {
		f.result.Cancel()
	}
}

// isStop reports whether an error only says that the run was cancelled or has expired, which the run's end says anyway.
func isStop(err error) bool {
	switch e := err.(type) { //nolint:errorlint // what wraps it is looked into, and nothing else may be in it
	case *StepError:
		return slices.Contains(e.kinds, ErrCancelled) || slices.Contains(e.kinds, ErrTimedOut)
	case interface{ Unwrap() error }:
		return isStop(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !isStop(err) })
	default:
		return err == ErrCancelled || err == ErrTimedOut //nolint:errorlint // as above
	}
}
