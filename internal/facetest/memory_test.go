package facetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestBodyLeavesDuringALongStep checks that a body is unwound while its step runs for long, also when it had to go on
// meanwhile, and called again for the result. The step is not made again for that.
func TestBodyLeavesDuringALongStep(t *testing.T) {
	const also pawl.Event[int] = "also"
	var called, left atomic.Int32
	steps := map[string]*atomic.Int32{"long": {}, "short": {}}
	after := func(name string, d time.Duration, out int) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			steps[name].Add(1)
			select {
			case <-time.After(d):
				return out, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
	}
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		called.Add(1)
		defer left.Add(1)
		long := pawl.Async(ctx, "long", after("long", time.Hour, 40))
		short, err := pawl.Step(ctx, "short", after("short", time.Second, 1))
		if err != nil {
			return 0, err
		}
		sent, err := also.Wait(ctx)
		if err != nil {
			return 0, err
		}
		sum, err := long.Get(ctx)
		return sum + short + sent, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "w", none{})
		want := func(when string, calls, exits int32) {
			t.Helper()
			if c, l := called.Load(), left.Load(); c != calls || l != exits {
				t.Errorf("%s: called %d times, and left %d times; want %d and %d", when, c, l, calls, exits)
			}
		}
		e.Skip(4 * time.Second)
		want("while it waits for a short time", 1, 0)
		e.Skip(time.Minute)
		want("while the step runs for long", 1, 1)
		if err := also.Send(t.Context(), e, "w", 1); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		want("after an event", 2, 2)
		e.WantPhase("w", client.PhaseRunning)
		if n, err := r.Result(t.Context()); err != nil || n != 42 {
			t.Errorf("%d, %v", n, err)
		}
		want("at the end", 3, 3)
		if long, short := steps["long"].Load(), steps["short"].Load(); long != 1 || short != 1 {
			t.Errorf("the long step was made %d times, the short one %d times", long, short)
		}
	}, w)
}

// TestBodyLeavesForGood checks the other ends of a step whose body was unwound: it fails and is tried again, its limit
// ends, its run is cancelled.
func TestBodyLeavesForGood(t *testing.T) {
	attempts, undone := 0, 0
	w := pawl.Define("w", func(ctx pawl.Context, how string) (int, error) {
		var undo pawl.Compensations
		undo.Add(ctx, "undo", func(context.Context) error { undone++; return nil })
		err := pawl.Do(ctx, "long", func(ctx context.Context) error {
			attempts++
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if how == "fails" && attempts < 3 {
				return errLong
			}
			return nil
		}, pawl.Retry("fixed(3, 1m)"), pawl.Timeout("5h"))
		if err != nil {
			return 0, undo.Run(ctx)
		}
		return attempts, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "fails", "fails")
		if n, err := r.Result(t.Context()); err != nil || n != 3 {
			t.Errorf("%d attempts, %v", n, err)
		}
		attempts = 0
		started(t, e, w, "cancelled", "cancelled")
		e.Skip(time.Minute)
		if err := pawl.RunOf[int](e, "cancelled").Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		e.WantPhase("cancelled", client.PhaseCancelled)
		if attempts != 1 || undone != 1 {
			t.Errorf("%d attempts, undone %d times", attempts, undone)
		}
	}, w)
}

var errLong = errors.New("it took an hour, and failed")
