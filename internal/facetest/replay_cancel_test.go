package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// cancelling is the code of a workflow with a cancel, or without it.
type cancelling struct {
	name  string
	asked string // the part of a ChangedError that names the cancel
	body  func(ctx pawl.Context, cancels bool) error
}

var cancellings = []cancelling{
	{"of a scope", `cancel of "scope[1]"`, func(ctx pawl.Context, cancels bool) error {
		inner, cancel := pawl.WithCancel(ctx)
		nap := pawl.SleepAsync(inner, "nap", "1h")
		if err := pawl.Sleep(ctx, "short", "1s"); err != nil {
			return err
		}
		if cancels {
			cancel()
		}
		return errors.Join(pawl.Sleep(ctx, "later", "1s"), pawl.Sleep(ctx, "long", "2h"), ended(nap.Get(ctx)))
	}},
	{"of a future", `cancel of sleep "nap"`, func(ctx pawl.Context, cancels bool) error {
		nap := pawl.SleepAsync(ctx, "nap", "1h")
		if err := pawl.Sleep(ctx, "short", "1s"); err != nil {
			return err
		}
		if cancels {
			nap.Cancel()
		}
		return errors.Join(pawl.Sleep(ctx, "later", "1s"), pawl.Sleep(ctx, "long", "2h"), ended(nap.Get(ctx)))
	}},
	{"of a step", `cancel of step "work"`, func(ctx pawl.Context, cancels bool) error {
		work := pawl.Async(ctx, "work", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		if err := pawl.Sleep(ctx, "short", "1s"); err != nil {
			return err
		}
		if cancels {
			work.Cancel()
		}
		return errors.Join(pawl.Sleep(ctx, "later", "1s"), pawl.Sleep(ctx, "long", "2h"), ended(work.Get(ctx)))
	}},
	{"in a branch", `cancel of "scope[1]"`, func(ctx pawl.Context, cancels bool) error {
		inner, cancel := pawl.WithCancel(ctx)
		worker := pawl.Go(inner, "worker", func(ctx pawl.Context) (int, error) {
			return 0, pawl.Sleep(ctx, "nap", "1h")
		})
		boss := pawl.Go(ctx, "boss", func(ctx pawl.Context) (int, error) {
			err := pawl.Sleep(ctx, "short", "1s")
			if cancels {
				cancel()
			}
			return 0, errors.Join(err, pawl.Sleep(ctx, "later", "1s"), pawl.Sleep(ctx, "long", "2h"))
		})
		return errors.Join(ended(worker.Get(ctx)), ended(boss.Get(ctx)))
	}},
}

// ended returns no error for what was cancelled.
func ended(_ any, err error) error {
	if errors.Is(err, pawl.ErrCancelled) {
		return nil
	}
	return err
}

// TestReplayComparesCancels checks that a replay reports a cancel that the code has lost, and one that it has got where
// the history goes on. The code that has recorded a history passes with each part of it.
func TestReplayComparesCancels(t *testing.T) {
	for _, c := range cancellings {
		var cancels atomic.Bool
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
			return none{}, c.body(ctx, cancels.Load())
		})
		replay := func(t *testing.T, history []byte, with bool) error {
			t.Helper()
			cancels.Store(with)
			return pawl.Replay(t.Context(), pawl.Config{}, w, history)
		}
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			for _, with := range []bool{false, true} {
				cancels.Store(with)
				id := fmt.Sprint(c.name, with)
				if _, err := w.Start(t.Context(), e, id, none{}); err != nil {
					t.Fatal(err)
				}
				for at := range 8 { // the code's last wait begins after two seconds
					cancels.Store(with)
					e.Skip(400 * time.Millisecond)
					history, err := e.History(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					if err := replay(t, history, with); err != nil {
						t.Errorf("%s, %t at %d: the code that has recorded it: %v", c.name, with, at, err)
					}
					err = replay(t, history, !with)
					var changed *pawl.ChangedError
					told := errors.As(err, &changed) && strings.Contains(changed.Recorded+changed.Asked, c.asked)
					if passed := at >= 2; told != passed {
						t.Errorf("%s, %t at %d: other code: %v", c.name, with, at, err)
					}
				}
			}
		}, w)
	}
}

// TestReplayOfAChildThatCancels checks that a child whose own step was cancelled is not taken for a cancelled child.
func TestReplayOfAChildThatCancels(t *testing.T) {
	kid := pawl.Define("kid", func(ctx pawl.Context, _ none) (none, error) {
		nap := pawl.SleepAsync(ctx, "nap", "1h")
		nap.Cancel()
		_, err := nap.Get(ctx)
		return none{}, err
	})
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		_, err := pawl.Child(ctx, "kid", kid, none{})
		return fmt.Sprint(err), nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "w", none{})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := r.Result(t.Context()); err != nil || out == "<nil>" {
			t.Fatal(out, err)
		}
		history, err := e.History(t.Context(), "w")
		if err != nil {
			t.Fatal(err)
		}
		if err := pawl.Replay(t.Context(), pawl.Config{}, w, history); err != nil {
			t.Error(err)
		}
	}, w, kid)
}
