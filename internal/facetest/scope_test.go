package facetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestWithCancelEndsAScope checks that steps, sleeps, waits and child runs that were begun in a scope end when it is
// cancelled, those of its branches too. Everything outside goes on.
func TestWithCancelEndsAScope(t *testing.T) {
	child := pawl.Define("child", func(ctx pawl.Context, _ none) (none, error) {
		return none{}, pawl.Sleep(ctx, "sleep", time.Hour)
	})
	var d diary
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		outside := pawl.Event[string]("outside").WaitAsync(ctx)
		scope, cancel := pawl.WithCancel(ctx)
		inner, _ := pawl.WithCancel(scope)
		all := []interface {
			Get(ctx pawl.Context) (none, error)
		}{
			pawl.Event[none]("inside").WaitAsync(scope),
			pawl.ChildAsync(scope, "child", child, none{}),
			pawl.Async(scope, "runs", func(ctx context.Context) (none, error) {
				<-ctx.Done()
				d.add("stopped")
				return none{}, ctx.Err()
			}),
			pawl.Async(scope, "backs off", func(context.Context) (none, error) { return none{}, errBank },
				pawl.Retry(pawl.RetryPolicy{MaxAttempts: -1})),
			pawl.Go(scope, "branch", func(ctx pawl.Context) (none, error) {
				return none{}, pawl.Sleep(ctx, "sleep", time.Hour)
			}),
			pawl.Event[none]("inner").WaitAsync(inner),
		}
		if err := pawl.Sleep(ctx, "a while", time.Minute); err != nil {
			return "", err
		}
		cancel()
		cancel()
		for i, f := range all {
			if _, err := f.Get(ctx); !errors.Is(err, pawl.ErrCancelled) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := pawl.Do(inner, "late", d.does("late")); !errors.Is(err, pawl.ErrCancelled) {
			t.Errorf("%v", err)
		}
		if err := pawl.Do(pawl.Detached(inner), "undo", d.does("undo")); err != nil {
			t.Error(err)
		}
		return outside.Get(ctx)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		e.Skip(2 * time.Minute)
		d.wantSorted(t, "stopped undo") // a step that was told to stop has ended before its work has
		e.Crash()                       // the body is called again, and finds the same
		must(t, pawl.Event[string]("outside").Send(t.Context(), e, r.ID, "fine"))
		if got, err := r.Result(t.Context()); got != "fine" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		d.wantSorted(t, "stopped undo") // a step that was told to stop has ended before its work has
		h, err := e.History(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		pawltest.Replay(t, w, h)
		if s := e.Step(r.ID, "child"); s.Phase != "cancelled" {
			t.Errorf("%+v", s)
		}
	}, w, child)
}

// TestFirstOfTwo checks a race whose loser is cancelled, in either form, and the compensation of the loser's branch.
func TestFirstOfTwo(t *testing.T) {
	var d diary
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		offer := func(name string, after time.Duration) *pawl.Future[string] {
			return pawl.Go(ctx, name, func(ctx pawl.Context) (string, error) {
				if err := pawl.Do(ctx, "reserve", d.does("+"+name)); err != nil {
					return "", err
				}
				if err := pawl.Sleep(ctx, "wait", after); err != nil {
					return "", errors.Join(err, pawl.Do(pawl.Detached(ctx), "release", d.does("-"+name)))
				}
				return name, nil
			})
		}
		offers := []*pawl.Future[string]{offer("slow", 3*time.Hour), offer("fast", time.Hour)}
		first, err := pawl.Select(ctx, offers[0], offers[1])
		if err != nil {
			return "", err
		}
		winner, loser := offers[0], offers[1]
		if first == loser {
			winner, loser = loser, winner
		}
		loser.Cancel()
		if _, err := loser.Get(ctx); !errors.Is(err, pawl.ErrCancelled) {
			t.Errorf("%v", err)
		}
		timer := pawl.Event[none]("never").WaitAsync(ctx)
		timer.Cancel()
		if _, err := timer.Get(ctx); !errors.Is(err, pawl.ErrCancelled) {
			t.Errorf("%v", err)
		}
		done := pawl.Async(ctx, "done", func(context.Context) (string, error) { return "done", nil })
		if _, err := done.Get(ctx); err != nil {
			return "", err
		}
		done.Cancel() // it has ended
		if _, err := done.Get(ctx); err != nil {
			t.Errorf("%v", err)
		}
		got, err := winner.Get(ctx)
		return got, errors.Join(err, pawl.Sleep(ctx, "then", time.Hour))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		e.Skip(90 * time.Minute)
		e.Restart()
		if got, err := r.Result(t.Context()); got != "fast" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		d.mu.Lock()
		if n := len(d.lines); n != 3 || d.lines[2] != "-slow" {
			t.Errorf("%v", d.lines)
		}
		d.mu.Unlock()
	}, w)
}

// TestCancelBetweenBranches checks a branch that another one cancels in the middle of its steps, while the process
// dies at every point of that. A body that is called again makes the same decisions, whichever branch comes first.
func TestCancelBetweenBranches(t *testing.T) {
	for crash := range 14 {
		var d diary
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			scope, cancel := pawl.WithCancel(ctx)
			worker := pawl.Go(scope, "worker", func(ctx pawl.Context) (int, error) {
				for i := 0; ; i++ {
					if err := pawl.Sleep(ctx, "tick", time.Second); err != nil {
						return i, pawl.Do(pawl.Detached(ctx), "undo", d.does(fmt.Sprint("undo", i)))
					}
				}
			})
			if err := pawl.Sleep(ctx, "wait", 5500*time.Millisecond); err != nil {
				return "", err
			}
			cancel()
			n, err := worker.Get(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(n), pawl.Sleep(ctx, "end", 3*time.Second)
		})
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := startTrip(t, e, w)
			e.Skip(time.Duration(crash) * 700 * time.Millisecond)
			e.Crash()
			got, err := r.Result(t.Context())
			if got != "5" || err != nil {
				t.Errorf("%d: %q, %v; problem: %v", crash, got, err, e.Problem(r.ID))
			}
			d.want(t, "undo5")
		}, w)
	}
}
