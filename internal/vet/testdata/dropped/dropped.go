// Package dropped has durable calls whose outcome nobody looks at.
package dropped

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
)

func save(context.Context) error { return nil }

func ship(ctx pawl.Context) error { return pawl.Do(ctx, "ship", save) }

func body(ctx pawl.Context, in int) (int, error) {
	pawl.Do(ctx, "save", save)     // want `the error of pawl.Do is dropped`
	pawl.Sleep(ctx, "nap", "1h")   // want `the error of pawl.Sleep is dropped`
	ship(ctx)                      // want `the error of dropped.ship is dropped`
	_ = pawl.Do(ctx, "best", save) // it need not succeed
	pawl.Logger(ctx).Info("hello")
	pawl.Async(ctx, "a", func(context.Context) (int, error) { return 1, nil })   // want `nobody reads the future of pawl.Async`
	_ = pawl.Go(ctx, "b", func(ctx pawl.Context) (int, error) { return 1, nil }) // want `nobody reads the future of pawl.Go`
	read := pawl.Go(ctx, "c", func(ctx pawl.Context) (int, error) { return 1, nil })
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if errors.Is(ctx.Err(), context.Canceled) { // want `ctx.Err in a workflow's body`
		return 0, nil
	}
	if _, ok := ctx.Deadline(); ok { // want `ctx.Deadline in a workflow's body`
		return 0, nil
	}
	func() {
		defer func() { recover() }() // want `what recover returns is dropped`
		_ = pawl.Do(ctx, "risky", save)
	}()
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = errors.New("it panicked")
			}
		}()
		return pawl.Do(ctx, "careful", save)
	}()
	if err != nil {
		return 0, err
	}
	pawl.ContinueAsNew(ctx, in) // want `pawl.ContinueAsNew ends the run by what it returns`
	return read.Get(ctx)
}
