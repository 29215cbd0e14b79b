package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	b := ctx.of()
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
	b := ctx.of()
	return b.on(b.Detached())
}

// CompensationTimeout bounds what a body does after its run was cancelled or has expired; see [Detached]. What is open
// when it ends is stopped. Default: a minute.
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
//	undo.Add("refund", func(ctx context.Context) error { return bank.Refund(ctx, order) })
//	err := pawl.Do(ctx, "charge", func(ctx context.Context) error { return bank.Charge(ctx, order) })
//	…
//	if err != nil {
//		return errors.Join(err, undo.Run(ctx))
//	}
//
// Add what undoes a step before the step, as here, where the step may have done its work although it failed: its answer
// was lost, or it was told to stop. What undoes it has to bear that nothing was done then.
type Compensations struct{ undo []compensation }

type compensation struct {
	name string
	fn   func(ctx context.Context) error
	opts []StepOption
}

// Add adds a function that undoes something. It becomes a step of that name when it is needed.
func (c *Compensations) Add(name string, fn func(ctx context.Context) error, opts ...StepOption) {
	c.undo = append(c.undo, compensation{name, fn, opts})
}

// Run runs the functions that were added, the last one first, each as a step with a detached Context: see [Do] and
// [Detached]. All of them run, even if some fail; their errors are joined. Afterwards it has none.
func (c *Compensations) Run(ctx Context) error {
	ctx = Detached(ctx)
	var errs []error
	for _, u := range slices.Backward(c.undo) {
		errs = append(errs, Do(ctx, u.name, u.fn, u.opts...))
	}
	c.undo = nil
	return errors.Join(errs...)
}

// Cancel ends what gives the future its result: its step, or with [Go] all that its branch does. What has ended stays
// as it is. [Future.Get] returns an error that is [ErrCancelled] for a step that was ended so.
func (f *Future[T]) Cancel() {
	if f.result != nil {
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
