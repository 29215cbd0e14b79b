package facetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	historyfile "github.com/pawl-dev/pawl/internal/history"
	"github.com/pawl-dev/pawl/pawltest"
)

// recordsOf returns the records of one type in a run's history.
func recordsOf[R core.Record](t *testing.T, e *pawltest.Env, id string) []R {
	t.Helper()
	history, err := e.History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := historyfile.Read(history)
	if err != nil {
		t.Fatal(err)
	}
	var all []R
	for _, entry := range entries {
		for _, rec := range entry.Records {
			if r, ok := rec.(R); ok {
				all = append(all, r)
			}
		}
	}
	return all
}

// wantState fails the test if the run's state is another one, or was not recorded so often.
func wantState[T comparable](t *testing.T, e *pawltest.Env, id string, want T, recorded int) {
	t.Helper()
	got, err := pawl.State[T]{}.Get(t.Context(), e, id)
	if err != nil || got != want {
		t.Errorf("the state is %v, %v, want %v", got, err, want)
	}
	if all := recordsOf[core.StatePublished](t, e, id); len(all) != recorded {
		t.Errorf("states were recorded %d times, want %d: %v", len(all), recorded, all)
	}
}

// TestState looks at what a body publishes while it works, after it was unwound and called again, after a crash and at
// the end.
func TestState(t *testing.T) {
	var progress pawl.State[int]
	w := pawl.Define("import", func(ctx pawl.Context, pages int) (int, error) {
		for page := range pages {
			if err := errors.Join(progress.Set(ctx, -page), progress.Set(ctx, page)); err != nil {
				return 0, err
			}
			if err := pawl.Sleep(ctx, "page", "1h"); err != nil {
				return 0, err
			}
		}
		return pages, progress.Set(ctx, 100)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "import-1", 4)
		if _, err := progress.Get(t.Context(), e, "import-2"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("the state of an unknown run: %v", err)
		}
		e.Settle()
		wantState(t, e, "import-1", 0, 1)
		e.Skip(61 * time.Minute)
		wantState(t, e, r.ID, 1, 2)
		e.Restart()
		e.Skip(time.Minute)
		wantState(t, e, r.ID, 1, 2)
		e.Skip(time.Hour)
		wantState(t, e, r.ID, 2, 3)
		e.Crash()
		e.Skip(5 * time.Hour)
		wantState(t, e, r.ID, 100, 5)
		d, err := e.DescribeRun(t.Context(), r.ID)
		if err != nil || string(d.State) != "100" || !d.StateAt.Equal(d.EndedAt) {
			t.Errorf("described is %s since %s, ended %s, %v", d.State, d.StateAt, d.EndedAt, err)
		}
		x, err := e.Explain(t.Context(), r.ID)
		if err != nil || string(x.State) != "100" || len(x.Steps) != 4 {
			t.Errorf("explained is %s with %d steps, %v", x.State, len(x.Steps), err)
		}
	}, w)
}

// TestStateOfBranches calls a body again whose branches wait where they have published: none of them publishes again,
// so the last value stays.
func TestStateOfBranches(t *testing.T) {
	const left, right pawl.Event[none] = "left", "right"
	side := func(event pawl.Event[none], name string, wait string) func(pawl.Context) (none, error) {
		return func(ctx pawl.Context) (none, error) {
			end := event.WaitAsync(ctx)
			if err := pawl.Sleep(ctx, "before", wait); err != nil {
				return none{}, err
			}
			if err := (pawl.State[string]{}).Set(ctx, name); err != nil {
				return none{}, err
			}
			return end.Get(ctx)
		}
	}
	w := pawl.Define("sides", func(ctx pawl.Context, _ none) (none, error) {
		a := pawl.Go(ctx, "a", side(left, "left", "2h"))
		b := pawl.Go(ctx, "b", side(right, "right", "1h"))
		return none{}, second(pawl.All(ctx, a, b))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		e.Skip(3 * time.Hour)
		wantState(t, e, r.ID, "left", 2)
		must(t, right.Send(t.Context(), e, r.ID, none{}))
		e.Crash()
		e.Skip(time.Hour)
		wantState(t, e, r.ID, "left", 2)
	}, w)
}

// TestStateInNewCode deploys code that publishes at places which an open run is beyond: it goes on without them.
func TestStateInNewCode(t *testing.T) {
	code := func(publish bool) *pawl.Workflow[none, none] {
		return pawl.Define("late", func(ctx pawl.Context, _ none) (none, error) {
			for i := range 3 {
				if publish {
					if err := (pawl.State[int]{}).Set(ctx, i); err != nil {
						return none{}, err
					}
				}
				if err := pawl.Sleep(ctx, "s", "1h"); err != nil {
					return none{}, err
				}
			}
			return none{}, nil
		})
	}
	old := code(false)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, old, "", none{})
		e.Skip(30 * time.Minute)
		e.Restart(code(true))
		e.Skip(2 * time.Hour)
		wantState(t, e, r.ID, 2, 2)
		e.Skip(2 * time.Hour)
		e.WantPhase(r.ID, "succeeded")
	}, old)
}

// TestStateAfterRetry retries a step of a run that has failed: what the body publishes after it is new.
func TestStateAfterRetry(t *testing.T) {
	price := 0
	w := pawl.Define("price", func(ctx pawl.Context, _ none) (int, error) {
		v, err := pawl.Step(ctx, "ask", func(context.Context) (int, error) {
			if price++; price == 1 {
				return 0, errors.New("no price")
			}
			return price, nil
		})
		if stateErr := (pawl.State[int]{}).Set(ctx, v); stateErr != nil {
			return 0, stateErr
		}
		return v, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		e.Settle()
		wantState(t, e, r.ID, 0, 1)
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryStep, Step: "ask"}))
		e.Settle()
		wantState(t, e, r.ID, 2, 2)
	}, w)
}

// TestStateIsRefused publishes what cannot be recorded: the run fails even if the body ignores the error.
func TestStateIsRefused(t *testing.T) {
	large := slices.Repeat([]byte{'x'}, 2000)
	for v, want := range map[any]error{make(chan int): pawl.ErrInvalid, string(large): pawl.ErrTooLarge} {
		w := pawl.Define("state", func(ctx pawl.Context, _ none) (none, error) {
			_ = pawl.State[any]{}.Set(ctx, v)
			return none{}, nil
		})
		pawltest.RunWith(t, pawl.Config{MaxPayload: 1000}, func(t *testing.T, e *pawltest.Env) {
			r := started(t, e, w, "", none{})
			if _, err := r.Result(t.Context()); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}
