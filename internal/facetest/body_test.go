package facetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestFutures(t *testing.T) {
	w := pawl.Define("futures", func(ctx pawl.Context, n int) (int, error) {
		slow := pawl.Async(ctx, "slow", func(ctx context.Context) (int, error) { return n, wait(ctx, time.Hour) })
		fast := pawl.Go(ctx, "fast", func(ctx pawl.Context) (int, error) {
			if err := pawl.Sleep(ctx, "nap", "1m"); err != nil {
				return 0, err
			}
			return pawl.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
		})
		first, err := pawl.Select(ctx, slow, fast)
		if err != nil || first != fast {
			return 0, fmt.Errorf("first was %v, %w", first, err)
		}
		if _, err := pawl.All(ctx, slow, fast); err != nil {
			return 0, err
		}
		a, _ := slow.Get(ctx)
		b, _ := fast.Get(ctx)
		return a + b, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "f", 7)
		e.Skip(2 * time.Minute)
		e.Restart(w) // the slow step is lost and made again; who was first stays
		got, err := reopened(e, r).Result(t.Context())
		if err != nil || got != 21 {
			t.Fatalf("got %d, %v", got, err)
		}
		e.WantPhase("f", "succeeded")
	}, w)
}

func TestMap(t *testing.T) {
	var most, now atomic.Int32
	w := pawl.Define("map", func(ctx pawl.Context, n int) ([]int, error) {
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		return pawl.Map(ctx, "square", 4, items, func(ctx pawl.Context, i int) (int, error) {
			return pawl.Step(ctx, "square", func(ctx context.Context) (int, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return i * i, wait(ctx, time.Second)
			})
		})
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		start := time.Now()
		got, err := run(t, e.Engine, w, 20)
		if err != nil || len(got) != 20 || got[19] != 361 {
			t.Fatalf("got %v, %v", got, err)
		}
		if most.Load() != 4 || time.Since(start) < 5*time.Second || time.Since(start) > 6*time.Second {
			t.Errorf("%d at once, in %s", most.Load(), time.Since(start))
		}
	}, w)
}

func TestMapStopsAtFirstError(t *testing.T) {
	w := pawl.Define("map", func(ctx pawl.Context, _ none) ([]int, error) {
		return pawl.Map(ctx, "m", 1, []int{1, 2, 3}, func(ctx pawl.Context, i int) (int, error) {
			return pawl.Step(ctx, "s", func(context.Context) (int, error) {
				if i == 2 {
					return 0, errors.New("two")
				}
				return i, nil
			})
		})
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, _ := w.Start(t.Context(), e, "m", none{})
		if _, err := r.Result(t.Context()); err == nil || !strings.Contains(err.Error(), "item 1") {
			t.Errorf("got %v", err)
		}
		d, _ := e.DescribeRun(t.Context(), "m")
		if len(d.Steps) != 2 {
			t.Errorf("%d steps, want 2: %v", len(d.Steps), d.Steps)
		}
	}, w)
}

func TestChild(t *testing.T) {
	inner := pawl.Define("inner", func(ctx pawl.Context, n int) (int, error) {
		if err := pawl.Sleep(ctx, "nap", "1h"); err != nil {
			return 0, err
		}
		if n < 0 {
			return 0, &declined{Code: -n}
		}
		return n + 1, nil
	})
	outer := pawl.Define("outer", func(ctx pawl.Context, n int) (int, error) {
		return pawl.Child(ctx, "inner", inner, n)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if got, err := run(t, e.Engine, outer, 41); err != nil || got != 42 {
			t.Fatalf("got %d, %v", got, err)
		}
		_, err := run(t, e.Engine, outer, -9)
		var own *declined
		if !errors.As(err, &own) || own.Code != 9 {
			t.Fatalf("the child's own error is lost: %v", err)
		}
	}, outer, inner)
}

func TestHooks(t *testing.T) {
	var calls []string
	hook := func(name string) func(context.Context, string, error) error {
		return func(_ context.Context, in string, cause error) error {
			calls = append(calls, fmt.Sprintf("%s(%s) timed out %t cancelled %t nil %t", name, in,
				errors.Is(cause, pawl.ErrTimedOut), errors.Is(cause, pawl.ErrCancelled), cause == nil))
			return nil
		}
	}
	w := pawl.Define("hooks", func(ctx pawl.Context, how string) (string, error) {
		if how == "fail" {
			return "", errors.New("no")
		}
		if how == "ok" {
			return "", nil
		}
		return "", pawl.Sleep(ctx, "long", "1d")
	}, pawl.RunTimeout("2h"), pawl.OnFailure(hook("failure")), pawl.OnCancel(hook("cancel")), pawl.OnExit(hook("exit")))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for _, how := range []string{"fail", "sleep", "ok"} {
			_, err := run(t, e.Engine, w, how)
			if (err == nil) != (how == "ok") || (how == "sleep") != errors.Is(err, pawl.ErrTimedOut) {
				t.Errorf("%s: %v", how, err)
			}
		}
		r, _ := w.Start(t.Context(), e, "", "cancel")
		e.Skip(time.Minute)
		must(t, r.Cancel(t.Context(), "changed my mind"))
		if _, err := r.Result(t.Context()); !errors.Is(err, pawl.ErrCancelled) {
			t.Error(err)
		}
		want := []string{
			"failure(fail) timed out false cancelled false nil false",
			"exit(fail) timed out false cancelled false nil false",
			"failure(sleep) timed out true cancelled false nil false",
			"exit(sleep) timed out true cancelled false nil false",
			"exit(ok) timed out false cancelled false nil true",
			"cancel(cancel) timed out false cancelled true nil false",
			"exit(cancel) timed out false cancelled true nil false",
		}
		if !slices.Equal(calls, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
		}
	}, w)
}

func TestHeartbeatDetailsReachTheNextAttempt(t *testing.T) {
	w := pawl.Define("beat", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Step(ctx, "copy", func(ctx context.Context) (int, error) {
			done, _ := pawl.Heartbeat[int]{}.Last(ctx)
			for ; done < 10; done++ {
				if pawl.Attempt(ctx).Number == 1 && done == 4 {
					<-ctx.Done() // it hangs
					return 0, ctx.Err()
				}
				pawl.Heartbeat[int]{}.Beat(ctx, done+1)
				if err := wait(ctx, 20*time.Second); err != nil {
					return 0, err
				}
			}
			return pawl.Attempt(ctx).Number, nil
		}, pawl.HeartbeatTimeout("30s"), pawl.Retry("fixed(2, 1s)"))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		start := time.Now()
		got, err := run(t, e.Engine, w, none{})
		if err != nil || got != 2 {
			t.Fatalf("got %d, %v", got, err)
		}
		// 4 × 20s, 10s more of silence, 1s backoff, 6 × 20s
		if took := time.Since(start); took < 205*time.Second || took > 235*time.Second {
			t.Errorf("took %s", took)
		}
	}, w)
}

func TestReplayAfterRestart(t *testing.T) {
	var calls atomic.Int32
	w := pawl.Define("long", func(ctx pawl.Context, _ none) (string, error) {
		id := pawl.UUID(ctx)
		dice := pawl.Random(ctx).IntN(1000)
		for range 3 {
			_, err := pawl.Step(ctx, "work", func(context.Context) (int32, error) { return calls.Add(1), nil })
			if err != nil {
				return "", err
			}
			if err := pawl.Sleep(ctx, "rest", "1d"); err != nil {
				return "", err
			}
			if got := pawl.UUID(ctx); got == id {
				return "", errors.New("the same UUID twice")
			}
		}
		return fmt.Sprint(id, dice, pawl.Now(ctx).Unix()), nil
	})
	var first string
	for _, restarts := range []bool{false, true} {
		calls.Store(0)
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := started(t, e, w, "l", none{})
			for range 4 {
				e.Skip(12 * time.Hour)
				if restarts {
					e.Restart()
				}
			}
			got, err := reopened(e, r).Result(t.Context())
			if err != nil || calls.Load() != 3 {
				t.Fatalf("%v, %v, %d calls", got, err, calls.Load())
			}
			history, err := e.History(t.Context(), "l")
			if err != nil {
				t.Fatal(err)
			}
			pawltest.Replay(t, w, history)
			if first == "" {
				first = got
			}
			if got[len(got)-10:] != first[len(first)-10:] {
				t.Errorf("got %s, want the instant of %s", got, first)
			}
		}, w)
	}
}

func TestChangedBody(t *testing.T) {
	step := func(ctx pawl.Context, name string) error {
		return pawl.Do(ctx, name, func(context.Context) error { return nil })
	}
	v1 := pawl.Define("order", func(ctx pawl.Context, _ none) (string, error) {
		_ = step(ctx, "charge")
		return "old", pawl.Sleep(ctx, "settle", "1d")
	})
	broken := pawl.Define("order", func(ctx pawl.Context, _ none) (string, error) {
		_ = step(ctx, "reserve")
		_ = step(ctx, "charge")
		return "broken", pawl.Sleep(ctx, "settle", "1d")
	})
	fixed := pawl.Define("order", func(ctx pawl.Context, _ none) (string, error) {
		v, err := pawl.Version(ctx, "reserve first", 1, 2)
		if err != nil {
			return "", err
		}
		if v >= 2 {
			_ = step(ctx, "reserve")
		}
		_ = step(ctx, "charge")
		return fmt.Sprint("version ", v), pawl.Sleep(ctx, "settle", "1d")
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, _ := v1.Start(t.Context(), e, "o", none{})
		e.Skip(time.Hour)
		history, _ := e.History(t.Context(), "o")
		pawltest.Replay(t, v1, history)
		pawltest.Replay(t, fixed, history)
		var changed *pawl.ChangedError
		if err := pawl.Replay(t.Context(), pawl.Config{}, broken, history); !errors.As(err, &changed) ||
			changed.Recorded != `step "charge"` || changed.Asked != `step "reserve"` {
			t.Errorf("replay: %v", err)
		}
		e.Restart(broken)
		e.Skip(2 * 24 * time.Hour)
		if err := e.Problem(r.ID); !errors.As(err, &changed) {
			t.Errorf("the problem is %v", err)
		}
		e.WantPhase("o", "running")
		e.Restart(fixed)
		if got, err := reopened(e, r).Result(t.Context()); err != nil || got != "version 1" {
			t.Errorf("got %v, %v", got, err)
		}
		if got, err := run(t, e.Engine, fixed, none{}); err != nil || got != "version 2" {
			t.Errorf("got %v, %v", got, err)
		}
	}, v1)
}

// TestVersionOfSeveralGoroutines checks goroutines of which one was beyond the point of a change, and comes to it
// after one that was not.
func TestVersionOfSeveralGoroutines(t *testing.T) {
	body := func(changed bool) *pawl.Workflow[none, string] {
		return pawl.Define("both", func(ctx pawl.Context, _ none) (string, error) {
			wrap := func(ctx pawl.Context) (int, error) {
				v := 1
				if changed {
					var err error
					if v, err = pawl.Version(ctx, "gift wrap", 1, 2); err != nil {
						return 0, err
					}
				}
				if v >= 2 {
					_ = pawl.Do(ctx, "wrap", func(context.Context) error { return nil })
				}
				return v, pawl.Do(ctx, "send", func(context.Context) error { return nil })
			}
			late := pawl.Go(ctx, "late", func(ctx pawl.Context) (int, error) {
				if _, err := pawl.Event[string]("paid").Wait(ctx); err != nil {
					return 0, err
				}
				return wrap(ctx)
			})
			early := pawl.Go(ctx, "early", func(ctx pawl.Context) (int, error) {
				if changed {
					<-time.After(time.Second) //pawlvet:ignore virtual: it computes while the other one goes on
				}
				return wrap(ctx)
			})
			if _, err := pawl.All(ctx, late, early); err != nil {
				return "", err
			}
			a, _ := late.Get(ctx)
			b, _ := early.Get(ctx)
			return fmt.Sprint(a, b), nil
		})
	}
	old, now := body(false), body(true)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, old, "o", none{})
		e.Skip(time.Hour)
		e.Restart()
		must(t, pawl.Event[string]("paid").Send(t.Context(), e, "o", "yes"))
		e.Restart(now)
		if got, err := reopened(e, r).Result(t.Context()); err != nil || got != "1 1" {
			t.Errorf("got %v, %v", got, err)
		}
		if err := pawl.Event[string]("paid").Send(t.Context(), e, "o", "yes"); err == nil {
			t.Error("the run is open")
		}
		fresh := started(t, e, now, "n", none{})
		must(t, pawl.Event[string]("paid").Send(t.Context(), e, "n", "yes"))
		if got, err := fresh.Result(t.Context()); err != nil || got != "2 2" {
			t.Errorf("got %v, %v", got, err)
		}
	}, old)
}

func TestBlockedBodyTripsTheTaskLimit(t *testing.T) {
	var blocked atomic.Int32
	w := pawl.Define("blocks", func(ctx pawl.Context, _ none) (int, error) {
		if blocked.Add(1) == 1 {
			blockHere(ctx)
		}
		return pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
	}, pawl.TaskTimeout("3s"))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		start := time.Now()
		r, _ := w.Start(t.Context(), e, "b", none{})
		e.Skip(2999 * time.Millisecond)
		if err := e.Problem(r.ID); err != nil {
			t.Error("too early", err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != 1 || time.Since(start) != 3*time.Second {
			t.Errorf("got %v, %v after %s", got, err, time.Since(start))
		}
	}, w)
	var late *pawl.TaskTimeoutError
	always := pawl.Define("blocks", func(ctx pawl.Context, _ none) (int, error) {
		blockHere(ctx)
		return 0, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, _ := always.Start(t.Context(), e, "b", none{})
		e.Skip(11 * time.Second)
		if err := e.Problem(r.ID); !errors.As(err, &late) || !strings.Contains(late.Stack, "blockHere") {
			t.Errorf("got %v", err)
		}
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpTerminate}))
	}, always)
}

func TestPanics(t *testing.T) {
	at := map[string]int{}
	here := func(what string) {
		_, _, line, _ := runtime.Caller(1)
		at[what] = line
	}
	w := pawl.Define("panics", func(ctx pawl.Context, where string) (int, error) {
		_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) {
			here("step")
			panic("in the step")
		})
		if where == "body" {
			here("body")
			panic("in the body")
		}
		if where == "strand" {
			return pawl.Go(ctx, "strand", func(pawl.Context) (int, error) {
				defer func() { panic(recover()) }()
				none := func() map[string]int { return nil }
				here("strand")
				none()["key"] = 1
				return 0, nil
			}).Get(ctx)
		}
		return 0, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for where, value := range map[string]string{
			"body": "in the body", "step": "in the step",
			"strand": "assignment to entry in nil map",
		} {
			_, err := run(t, e.Engine, w, where)
			var p *pawl.PanicError
			if !errors.As(err, &p) || p.Value != value || !strings.Contains(p.Stack, "body_test.go") {
				t.Errorf("%s: %v", where, err)
			}
			if want := fmt.Sprintf("body_test.go:%d)", at[where]+1); !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: got %v, want it at %s", where, err, want)
			}
		}
	}, w)
}

func TestDefineRefuses(t *testing.T) {
	body := func(pawl.Context, string) (int, error) { return 0, nil }
	for want, opts := range map[string][]pawl.Option{
		//pawlvet:ignore the mistake that is tested
		"run timeout":       {pawl.RunTimeout("3 weeks")},
		"execution timeout": {pawl.ExecutionTimeout(time.Duration(0))},
		"task timeout":      {pawl.TaskTimeout("1h")},
		//pawlvet:ignore the mistake that is tested
		"run retry": {pawl.RunRetry("fixed")},
		//pawlvet:ignore the mistake that is tested
		"defaults: retry": {pawl.Defaults(pawl.Retry("fixed(-3, 1s)"))},
		//pawlvet:ignore the mistake that is tested
		"step charge: heartbeat": {pawl.ForStep("charge", pawl.HeartbeatTimeout("never"))},
		"onFailure: it has no":   {pawl.OnFailure[string](nil)},
		"step a/b: the name":     {pawl.ForStep("a/b", pawl.Timeout("1s"))},
		"onFailure takes int":    {pawl.OnFailure(func(context.Context, int, error) error { return nil })},
		"retry: maxInterval": {pawl.Defaults(pawl.Retry(pawl.RetryPolicy{
			MaxAttempts: 3,
			MaxInterval: time.Millisecond,
		}))},
		"retry: maxAttempts":        {pawl.Defaults(pawl.Retry(pawl.RetryPolicy{MaxAttempts: -2}))},
		"retry: backoffCoefficient": {pawl.Defaults(pawl.Retry(pawl.RetryPolicy{BackoffCoefficient: 0.5}))},
	} {
		w := pawl.Define("w", body, opts...)
		if w.Err() == nil || !strings.Contains(w.Err().Error(), want) {
			t.Errorf("%s: %v", want, w.Err())
		}
		if _, err := w.Start(t.Context(), nil, "", ""); err == nil {
			t.Errorf("%s: a broken definition starts", want)
		}
	}
	if w := pawl.Define("a/b", body); w.Err() == nil {
		t.Error("a name with a slash is taken")
	}
}
