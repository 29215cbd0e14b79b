package facetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestReferences starts runs and children of workflows that another program has, by their names, and calls its handler.
func TestReferences(t *testing.T) {
	double := pawl.HandlerRef[int, int]("double")
	order, part := pawl.Ref[int, int]("order"), pawl.Ref[int, int]("part")
	whole := pawl.Define("whole", func(ctx pawl.Context, n int) (int, error) {
		child := pawl.ChildAsync(ctx, "part", part, n)
		called, err := double.Call(ctx, "call", n, pawl.Queue("q"))
		if err != nil {
			return 0, err
		}
		got, err := child.Get(ctx)
		return called + got, err
	})
	plusOne := func(_ pawl.Context, n int) (int, error) { return n + 1, nil }
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		one := started(t, e, order, "order-1", 1)
		two := started(t, e, whole, "", 10)
		e.Skip(time.Hour)
		e.WantPhase(one.ID, "running")
		if err := e.Problem(one.ID); err == nil {
			t.Error("the run waits for its function, and nothing says so")
		}
		same, err := order.Start(t.Context(), e, "order-1", 1, pawl.UseExisting())
		if err != nil || same.ID != one.ID {
			t.Errorf("started again: %s, %v", same.ID, err)
		}
		e.Restart(whole, pawl.Define("order", plusOne), pawl.Define("part", plusOne))
		if err := e.Serve("q", 1, pawl.Handle("double", func(_ context.Context, n int) (int, error) {
			return 2 * n, nil
		})); err != nil {
			t.Fatal(err)
		}
		found, err := order.Find(t.Context(), e, "order-1")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := found.Result(t.Context()); err != nil || got != 2 {
			t.Errorf("the order: %d, %v", got, err)
		}
		if got, err := pawl.RunOf[int](e, two.ID).Result(t.Context()); err != nil || got != 31 {
			t.Errorf("the whole: %d, %v", got, err)
		}
	}, whole)
}

// TestReferenceMisused makes references that make no sense, or uses them where a function is needed.
func TestReferenceMisused(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := pawl.Ref[int, int]("").Start(t.Context(), e, "", 1); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a reference without a name: %v", err)
		}
		if err := e.Serve("q", 1, pawl.HandlerRef[int, int]("h")); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a handler without a function is served: %v", err)
		}
		w := pawl.Define("w", func(_ pawl.Context, _ none) (none, error) { return none{}, nil })
		r := started(t, e, w, "", none{})
		history, err := e.History(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		err = pawl.Replay(t.Context(), pawl.Config{}, pawl.Ref[none, none]("w"), history)
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a reference is replayed: %v", err)
		}
	})
}
