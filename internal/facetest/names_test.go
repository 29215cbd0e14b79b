package facetest

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestKeyOfAChain checks that a key's input is the one that the chain began with, wherever the chain is by now.
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
		first := started(t, e, w, "", 1, key)
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

// TestEmptyID checks that an empty id names no run, least of all the newest one.
func TestEmptyID(t *testing.T) {
	w := pawl.Define("w", func(_ pawl.Context, n int) (int, error) { return n, nil })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", 1)
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for what, ask := range map[string]func() error{
			"history":  func() error { _, err := e.History(ctx, ""); return err },
			"explain":  func() error { _, err := e.Explain(ctx, ""); return err },
			"await":    func() error { _, err := e.AwaitRun(ctx, ""); return err },
			"event":    func() error { return pawl.Event[int]("x").Send(ctx, e, "", 1) },
			"name":     func() error { return pawl.Event[int]("").Send(ctx, e, r.ID, 1) }, // the name of the event
			"operate":  func() error { return e.Operate(ctx, "", pawl.Operation{Op: client.OpCancelGracefully}) },
			"restart":  func() error { _, err := e.RestartRun(ctx, "", client.RestartRequest{}); return err },
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

// TestWorkflowIDLikeARunID checks that a workflow id may look like a run id, as an order number that is a UUID does.
// The run can be described and operated by it. The id of a run stays that run's.
func TestWorkflowIDLikeARunID(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) { return pawl.Event[int]("go").Wait(ctx) })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for _, name := range []string{"6f1c2f0e-7a52-4f0b-9d0e-3c1d0a5b7e11", "0199d2c3-7a52-7f0b-9d0e-3c1d0a5b7e11"} {
			ctx := t.Context()
			r, err := w.Start(ctx, e, name, none{})
			if err != nil {
				t.Fatal(err)
			}
			e.Settle()
			if d, err := e.DescribeRun(ctx, name); err != nil || d.ID != r.ID {
				t.Errorf("describe: %s, %v; want %s", d.ID, err, r.ID)
			}
			if d, err := e.Explain(ctx, name); err != nil || d.ID != r.ID {
				t.Errorf("explain: %v", err)
			}
			if found, err := w.Find(ctx, e, name); err != nil || found.ID != r.ID {
				t.Errorf("find: %s, %v; want %s", found.ID, err, r.ID)
			}
			if h, err := e.History(ctx, name); err != nil || len(h) == 0 {
				t.Errorf("history: %d bytes, %v", len(h), err)
			}
			if err := e.Problem(name); err != nil {
				t.Errorf("problem: %v", err)
			}
			for _, op := range []client.Op{client.OpPause, client.OpResume} {
				if err := e.Operate(ctx, name, pawl.Operation{Op: op}); err != nil {
					t.Errorf("%s: %v", op, err)
				}
			}
			if err := pawl.Event[int]("go").Send(ctx, e, name, 7); err != nil {
				t.Errorf("event: %v", err)
			}
			if n, err := pawl.RunOf[int](e, name).Result(ctx); err != nil || n != 7 {
				t.Errorf("result: %d, %v", n, err)
			}
			if _, err := e.RestartRun(ctx, name, client.RestartRequest{}); err != nil {
				t.Errorf("restart: %v", err)
			}
			other, err := w.Start(ctx, e, r.ID, none{}) // another run's id as a workflow id
			if err != nil {
				t.Fatal(err)
			}
			if d, err := e.DescribeRun(ctx, r.ID); err != nil || d.ID != r.ID || d.ID == other.ID {
				t.Errorf("the run's own id: %s, %v", d.ID, err)
			}
		}
	}, w)
}

// TestPayloadsAreJSON checks that a program that sends values without a codec is told of one that is not JSON.
func TestPayloadsAreJSON(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ int) (int, error) { return pawl.Event[int]("go").Wait(ctx) })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.StartRun(t.Context(), client.StartRequest{Workflow: "w", Input: []byte("{")})
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("the input of a run: %v", err)
		}
		err = e.SendEvent(t.Context(), r.ID, client.SendRequest{Name: "go", Payload: []byte("{")})
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("the data of an event: %v", err)
		}
		must(t, e.SendEvent(t.Context(), r.ID, client.SendRequest{Name: "go"}))
		if out, err := r.Result(t.Context()); err != nil || out != 0 {
			t.Errorf("the run returned %d, %v", out, err)
		}
	})
}
