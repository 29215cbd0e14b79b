package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestKeyOfAChain: the input that belongs to a key is the one the chain began with, wherever the chain is by now.
func TestKeyOfAChain(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, n int) (int, error) {
		if n == 3 {
			return n, nil
		}
		return n, pawl.ContinueAsNew(ctx, n+1)
	})
	other := pawl.Define("other", func(_ pawl.Context, n int) (int, error) { return -n, nil })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		key := pawl.IdempotencyKey("k")
		first, err := w.Start(t.Context(), e, "", 1, key)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := first.Result(t.Context()); err != nil || n != 3 {
			t.Fatalf("%d, %v", n, err)
		}
		if again, err := w.Start(t.Context(), e, "", 1, key); err != nil || !again.Existing {
			t.Errorf("the same input: %+v, %v", again, err)
		}
		if _, err := w.Start(t.Context(), e, "", 3, key); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("the input of the chain's last run: %v", err)
		}
		if n, err := run2(t, e, other, key); err != nil || n != -1 {
			t.Errorf("another workflow: %d, %v", n, err)
		}
	}, w, other)
}

func run2(t *testing.T, e *pawltest.Env, w *pawl.Workflow[int, int], opts ...pawl.StartOption) (int, error) {
	t.Helper()
	r, err := w.Start(t.Context(), e, "", 1, opts...)
	if err != nil {
		return 0, err
	}
	return r.Result(t.Context())
}

// TestEmptyID: an empty id names no run, least of all the newest one.
func TestEmptyID(t *testing.T) {
	w := pawl.Define("w", func(_ pawl.Context, n int) (int, error) { return n, nil })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := run2(t, e, w); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for what, ask := range map[string]func() error{
			"await":    func() error { _, err := e.AwaitRun(ctx, ""); return err },
			"event":    func() error { return pawl.Event[int]("x").Send(ctx, e, "", 1) },
			"operate":  func() error { return e.Operate(ctx, "", pawl.Operation{Op: pawl.OpCancel}) },
			"restart":  func() error { _, err := e.RestartRun(ctx, ""); return err },
			"describe": func() error { _, err := e.DescribeRun(ctx, ""); return err },
			"find":     func() error { _, err := w.Find(ctx, e, ""); return err },
			"problem":  func() error { return e.Problem("") },
			"result":   func() error { _, err := pawl.RunOf[int](e, "").Result(ctx); return err },
		} {
			if err := ask(); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}, w)
}
