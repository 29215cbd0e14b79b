package facetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// slowSteps returns a workflow of two steps that take a minute each, and counts the attempts that begin.
func slowSteps(begun *atomic.Int32) *pawl.Workflow[int, int] {
	return pawl.Define("slow", func(ctx pawl.Context, _ int) (int, error) {
		for _, name := range []string{"first", "second"} {
			err := pawl.Do(ctx, name, func(ctx context.Context) error {
				begun.Add(1)
				select {
				case <-time.After(time.Minute):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			if err != nil {
				return 0, err
			}
		}
		return int(begun.Load()), nil
	})
}

// TestShutdownDrains checks that the attempt that runs may end, the next one begins after the next Open, and none is
// repeated.
func TestShutdownDrains(t *testing.T) {
	var begun atomic.Int32
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		run, err := slowSteps(&begun).Start(t.Context(), e, "r", 0)
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(10 * time.Second)
		began := time.Now()
		must(t, e.Shutdown(t.Context()))
		if took := time.Since(began); took < 50*time.Second || took > 51*time.Second {
			t.Errorf("it took %s, the attempt needed 50s", took)
		}
		if _, err := e.DescribeRun(t.Context(), "r"); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("after Shutdown the engine answers %v", err)
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Errorf("a second Shutdown: %v", err)
		}
		if begun := begun.Load(); begun != 1 {
			t.Errorf("%d attempts have begun, want 1", begun)
		}
		<-time.After(time.Hour)
		e.Reopen()
		e.Skip(time.Second) // the body is called before its workflow is registered
		if problem := e.Problem(run.ID); problem == nil {
			t.Error("nothing is said of a run whose workflow is not registered")
		}
		must(t, e.Register(slowSteps(&begun)))
		if problem := e.Problem(run.ID); problem != nil {
			t.Errorf("the workflow is registered, and the run's problem is still %v", problem)
		}
		if got, err := pawl.RunOf[int](e, run.ID).Result(t.Context()); err != nil || got != 2 {
			t.Errorf("%d attempts have begun, want 2: %v", got, err)
		}
	})
}

// TestShutdownEndsWithItsContext checks that an attempt that takes too long is told to stop, and is made again later.
func TestShutdownEndsWithItsContext(t *testing.T) {
	var begun atomic.Int32
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := slowSteps(&begun).Start(t.Context(), e, "r", 0); err != nil {
			t.Fatal(err)
		}
		e.Skip(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := e.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it took %s", took)
		}
		e.Reopen()
		must(t, e.Register(slowSteps(&begun)))
		if got, err := pawl.RunOf[int](e, "r").Result(t.Context()); err != nil || got != 3 {
			t.Errorf("%d attempts have begun, want 3: %v", got, err)
		}
	})
}

// TestShutdownServes checks that a run started during a shutdown is durable, and begins after it.
func TestShutdownServes(t *testing.T) {
	var begun atomic.Int32
	w := slowSteps(&begun)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "early", 0); err != nil {
			t.Fatal(err)
		}
		e.Skip(10 * time.Second)
		down := make(chan error)
		go func() { down <- e.Shutdown(t.Context()) }()
		e.Skip(10 * time.Second)
		if _, err := w.Start(t.Context(), e, "late", 0); err != nil {
			t.Fatal(err)
		}
		e.Skip(10 * time.Second)
		if begun := begun.Load(); begun != 1 {
			t.Errorf("%d attempts have begun, want 1", begun)
		}
		must(t, <-down)
		e.Reopen()
		e.Skip(10 * time.Minute)
		e.WantPhase("early", "succeeded")
		e.WantPhase("late", "succeeded")
	}, w)
}
