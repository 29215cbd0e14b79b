package pawl

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// Future is a result that may not be there yet: of [Async], [Handler.CallAsync], [ChildAsync], [Event.WaitAsync],
// [SleepAsync] or [Go].
type Future[T any] struct {
	result *body.Result // nil: err is there from the beginning
	step   bool         // the future is a step's, else a branch's
	codec  Codec        // the codec of a step's result

	// The result of a branch, once it has ended.
	value T
	err   error
}

// Waitable is a Future of any type, for [Select].
type Waitable interface {
	awaited() *body.Result
	outcome(b *branch, record engine.Step) error
	missing() bool
}

func (f *Future[T]) awaited() *body.Result { return f.result }

func (f *Future[T]) missing() bool { return f == nil }

// outcome returns the error of a future whose result is there.
func (f *Future[T]) outcome(b *branch, record engine.Step) error {
	if f.step {
		return b.stepError(&record)
	}
	return f.err
}

func failed[T any](err error) *Future[T] { return &Future[T]{err: err} }

// Get waits for the result.
func (f *Future[T]) Get(ctx Context) (T, error) {
	var zero T
	switch {
	case f == nil || f.result == nil && f.err == nil:
		return zero, branchOf(ctx).invalid(errors.New("the future is of no call"), "get")
	case f.result == nil:
		return zero, f.err
	}
	record, err := branchOf(ctx).Get(f.result)
	if err != nil {
		return zero, err
	}
	if !f.step {
		return f.value, f.err
	}
	if err := branchOf(ctx).stepError(&record); err != nil {
		return zero, err
	}
	at := branchOf(ctx).at(kindOutput, record.Spec.Name)
	if record.Spec.Kind == core.KindWait {
		at.kind, at.name = kindEvent, record.Spec.Event
		return received[T](branchOf(ctx), f.codec, "the result of "+f.result.String(), at, record.Output)
	}
	return recorded[T](branchOf(ctx), f.codec, payloadName{what: "the result of", of: f.result}, at, record.Output), nil
}

// Go runs fn beside the rest of the body, as a branch. Branches take turns: this one begins when the branch that calls
// Go waits, and goes on until it waits itself. The order is recorded, so branches may share variables.
//
// Its steps have keys of their own, apart from those of other branches. A name that the branch of ctx uses again is
// numbered. Branches that still run when the body returns are stopped, and their open steps are cancelled.
//
// Wait for each branch. If nobody has when the body returns, a panic of the branch fails the run as one of the body
// does, and an error that it returned is logged.
func Go[T any](ctx Context, name string, fn func(ctx Context) (T, error)) *Future[T] {
	b := branchOf(ctx)
	if err := checkName(name); err != nil {
		return failed[T](b.invalid(err, "branch %q", name))
	}
	if fn == nil {
		return failed[T](b.invalid(errNoFunction, "branch %q", name))
	}
	f := &Future[T]{}
	result, err := b.Go(name, func(t *body.Thread) {
		call(b.on(t), fn, func(v T, err error) { f.value, f.err = v, err })
	})
	if err != nil {
		return failed[T](err)
	}
	f.result = result
	return f
}

// all waits until all futures have a result, and returns the first error in their order.
func all(b *branch, futures []Waitable) error {
	if err := b.present("all", futures); err != nil {
		return err
	}
	errs := make([]error, len(futures))
	for i, f := range futures {
		var record engine.Step
		if f.awaited() != nil {
			var err error
			if record, err = b.Await("pawl.All", f.awaited()); err != nil {
				return err
			}
		}
		errs[i] = f.outcome(b, record)
	}
	return firstOf(errs)
}

// present refuses futures that are nil.
func (b *branch) present(what string, futures []Waitable) error {
	for i, f := range futures {
		if f == nil || f.missing() {
			return b.invalid(fmt.Errorf("future %d is nil", i), "%s", what)
		}
	}
	return nil
}

// All waits until all futures have a result, and returns the results in their order, or the first error in their order.
// Futures of different types are got one after the other, in any order: what they stand for goes on meanwhile.
func All[T any](ctx Context, futures ...*Future[T]) ([]T, error) {
	waited := make([]Waitable, len(futures))
	for i, f := range futures {
		waited[i] = f
	}
	if err := all(branchOf(ctx), waited); err != nil {
		return nil, err
	}
	out := make([]T, len(futures))
	for i, f := range futures {
		var err error
		if out[i], err = f.Get(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Select waits until one of the futures has a result and returns that one. Which one it was is recorded: a body that is
// called again sees the same one. Its Get has the value:
//
//	answer, patience := pawl.Event[Answer]("answer").WaitAsync(ctx), pawl.SleepAsync(ctx, "patience", "3d")
//	switch first, err := pawl.Select(ctx, answer, patience); {
//	case err != nil:
//		return out, err
//	case first == answer:
//		a, err := answer.Get(ctx)
//		…
//	default: // nobody has answered
//	}
//
// The error says what is wrong with the call; that of the future is returned by its Get.
func Select(ctx Context, futures ...Waitable) (Waitable, error) {
	b := branchOf(ctx)
	if len(futures) == 0 {
		return nil, b.invalid(errors.New("without a future it waits for nothing"), "select")
	}
	if err := b.present("select", futures); err != nil {
		return nil, err
	}
	results := make([]*body.Result, len(futures))
	for i, f := range futures {
		results[i] = f.awaited()
	}
	first, err := b.Any(results)
	if err != nil {
		return nil, err
	}
	return futures[first], nil
}

// Map runs fn for each item, at most atOnce at a time (0: all), and returns the results in the items' order. Each
// runs in a branch of its own. The first error in their order is returned when all have ended; those that have not
// begun by then are not begun.
func Map[In, Out any](ctx Context, name string, atOnce int, items []In,
	fn func(ctx Context, item In) (Out, error),
) ([]Out, error) {
	b := branchOf(ctx)
	if err := checkName(name); err != nil {
		return nil, b.invalid(err, "map %q", name)
	}
	if fn == nil {
		return nil, b.invalid(errNoFunction, "map %q", name)
	}
	if atOnce <= 0 || atOnce > len(items) {
		atOnce = len(items)
	}
	out, errs := make([]Out, len(items)), make([]error, len(items))
	begun, err := b.Map(name, len(items), atOnce, func(t *body.Thread, i int) {
		one := func(ctx Context) (Out, error) { return fn(ctx, items[i]) }
		call(b.on(t), one, func(v Out, err error) { out[i], errs[i] = v, err })
	})
	if err != nil {
		return nil, err
	}
	for i := range begun {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("item %d: %w", i, errs[i])
		}
	}
	if err := firstOf(errs); err != nil {
		return nil, err
	}
	return out, nil
}
