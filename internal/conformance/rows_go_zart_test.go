package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// cardDeclined is a business error with data.
type cardDeclined struct{ Card string }

func (e *cardDeclined) Error() string { return "card " + e.Card + " declined" }

func init() {
	pawl.RegisterError[*cardDeclined]("card_declined")
	addGo("Z1", zartDeadlineIsStored)
	addGo("Z2", zartExecutionTimeout)
	addGo("Z3", zartDurations)
	addGo("Z4", zartGlobalScope)
	addGo("Z5", zartPerAttemptScope)
	addGo("Z6", zartTimeoutIsTerminal)
	addGo("Z7", zartNoAttemptAfterDeadline)
	addGo("Z8", zartExhausted)
	addGo("Z9", zartHierarchy)
	addGo("Z10", zartSleep)
	addGo("Z11", zartEventWait)
	addGo("Z12", zartCancel)
	addGo("Z13", zartAdminRetry)
	addGo("Z14", zartFreshDeadlines)
	addGo("Z15", zartFixed)
	addGo("Z16", zartThreeWay)
}

func zartDeadlineIsStored(t *testing.T) {
	var budgets []time.Duration
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		return pawl.Step(ctx, "step", func(ctx context.Context) (int, error) {
			at, _ := ctx.Deadline()
			budgets = append(budgets, time.Until(at).Round(time.Second))
			return 0, errors.New("again")
		}, pawl.Timeout("1h"), pawl.Retry("fixed(4, 10m)"))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		r := begin(t, e, w, nothing{})
		e.Skip(5 * time.Minute)
		e.WantDeadline("run", "step", time.Hour)
		at := e.Step("run", "step").Deadline
		e.Restart()
		e.Skip(7 * time.Minute)
		e.Restart()
		if got := e.Step("run", "step").Deadline; !got.Equal(at) {
			t.Errorf("the deadline moved from %s to %s", at, got)
		}
		if _, err := result(t, e, r); err == nil {
			t.Error("it succeeded")
		}
		if want := "[1h0m0s 50m0s 40m0s 30m0s]"; fmt.Sprint(budgets) != want {
			t.Errorf("the attempts had %s, want %s", budgets, want)
		}
	}, w)
}

// zartExecutionTimeout checks that whatever the run does, its deadline ends it and is handled once. The deadline is
// stored, so code with another timeout does not move it.
func zartExecutionTimeout(t *testing.T) {
	for _, how := range []string{"sleep", "wait", "steps"} {
		handled := 0
		within := func(timeout string) *pawl.Workflow[string, int] {
			return pawl.Define("w", func(ctx pawl.Context, how string) (int, error) {
				switch how {
				case "sleep":
					return 0, pawl.Sleep(ctx, "s", "365d")
				case "wait":
					return pawl.Event[int]("never").Wait(ctx)
				default:
					slow := func(ctx context.Context) (int, error) { return 0, idle(ctx, 24*time.Hour) }
					_, err := pawl.All(ctx, pawl.Async(ctx, "a", slow), pawl.Async(ctx, "b", slow))
					return 0, err
				}
			}, pawl.ExecutionTimeout(timeout), pawl.OnFailure(func(_ context.Context, _ string, cause error) error {
				handled++
				isErr(t, cause, pawl.ErrTimedOut)
				return nil
			}))
		}
		w := within("1h")
		goEnv(t, func(t *testing.T, e goProgram) {
			start := time.Now()
			r := begin(t, e, w, how)
			e.Skip(30 * time.Minute)
			e.Restart(within("5h"))
			e.Skip(29 * time.Minute)
			if handled != 0 {
				t.Errorf("%s: the handler ran before the deadline", how)
			}
			_, err := result(t, e, r)
			isErr(t, err, pawl.ErrTimedOut)
			took(t, start, time.Hour)
			if handled != 1 {
				t.Errorf("%s: the handler ran %d times, want once", how, handled)
			}
			e.WantPhase("run", "timed_out")
		}, w)
	}
}

func zartDurations(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, d string) (time.Duration, error) {
		start := pawl.Now(ctx)
		err := pawl.Sleep(ctx, "s", d)
		return pawl.Now(ctx).Sub(start), err
	})
	unbounded := pawl.Define("for ever", func(ctx pawl.Context, _ nothing) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) { return 1, idle(ctx, forEver) })
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		for text, want := range map[string]time.Duration{
			"30s": 30 * time.Second, "2h": 2 * time.Hour,
			"3d": 72 * time.Hour, "5m": 5 * time.Minute,
		} {
			r := begin(t, e, w, text)
			if got, err := result(t, e, r); err != nil || got != want {
				t.Errorf("%s: %s, %v", text, got, err)
			}
		}
		r := begin(t, e, unbounded, nothing{})
		if got, err := result(t, e, r); err != nil || got != 1 {
			t.Errorf("no timeout: %d, %v", got, err)
		}
	}, w, unbounded)
}

func zartGlobalScope(t *testing.T) {
	var second time.Duration
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			if pawl.Attempt(ctx).Number == 1 {
				_ = idle(ctx, 40*time.Second)
				return 0, errors.New("again")
			}
			at, _ := ctx.Deadline()
			second = time.Until(at)
			return 0, idle(ctx, time.Hour)
		}, pawl.Timeout("1m"), pawl.Retry("fixed(3, 5s)"))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		_, err := result(t, e, begin(t, e, w, nothing{}))
		took(t, start, time.Minute)
		if err == nil || second.Round(time.Second) != 15*time.Second {
			t.Errorf("the second attempt had %s, want the remaining 15s; %v", second, err)
		}
		e.WantAttempts("run", "s", 2)
	}, w)
}

func zartPerAttemptScope(t *testing.T) {
	var budgets []time.Duration
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			at, _ := ctx.Deadline()
			budgets = append(budgets, time.Until(at).Round(time.Second))
			_ = idle(ctx, 40*time.Second)
			return 0, errors.New("again")
		}, pawl.AttemptTimeout("1m", pawl.NoRetry()), pawl.Retry("fixed(3, 5s)"))
	}, pawl.RunTimeout("2m"))
	goEnv(t, func(t *testing.T, e goProgram) {
		_, err := result(t, e, begin(t, e, w, nothing{}))
		isErr(t, err, pawl.ErrTimedOut) // trap: the third attempt is capped by the run's deadline
		if fmt.Sprint(budgets) != "[1m0s 1m0s 30s]" {
			t.Errorf("the attempts had %s", budgets)
		}
		if at := e.Step("run", "s").Deadline; !at.IsZero() {
			t.Errorf("a per-attempt limit was stored: %s", at)
		}
	}, w)
}

func zartTimeoutIsTerminal(t *testing.T) {
	for name, limit := range map[string]pawl.StepOption{
		"global":      pawl.Timeout("10s"),
		"per attempt": pawl.AttemptTimeout("10s", pawl.NoRetry()),
	} {
		w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
			_, err := pawl.Step(ctx, "s", func(ctx context.Context) (int, error) { return 0, idle(ctx, time.Hour) },
				limit, pawl.Retry("fixed(5, 1s)"))
			isErr(t, err, pawl.ErrTimedOut)
			return "went on", nil
		})
		goEnv(t, func(t *testing.T, e goProgram) {
			start := time.Now()
			if got, err := result(t, e, begin(t, e, w, nothing{})); err != nil || got != "went on" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			took(t, start, 10*time.Second)
			e.WantAttempts("run", "s", 1)
		}, w)
	}
}

func zartNoAttemptAfterDeadline(t *testing.T) {
	calls := 0
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (nothing, error) {
		_, err := pawl.HandlerRef[any, int]("handler").Call(ctx, "s", nothing{}, pawl.Queue("later"),
			pawl.Timeout("10m"))
		isErr(t, err, pawl.ErrTimedOut)
		_, err = pawl.Step(ctx, "retried", func(context.Context) (int, error) {
			calls++
			return 0, errors.New("no")
		}, pawl.Timeout("10m"), pawl.Retry("fixed(5, 10m)"))
		isErr(t, err, pawl.ErrTimedOut)
		return nothing{}, nil
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		r := begin(t, e, w, nothing{})
		e.Skip(11 * time.Minute)
		handler := pawl.Handle("handler", func(context.Context, nothing) (int, error) {
			t.Error("an attempt began after its deadline")
			return 0, nil
		})
		if err := e.Serve("later", 1, handler); err != nil {
			t.Fatal(err)
		}
		if _, err := result(t, e, r); err != nil || calls != 1 {
			t.Errorf("%v, %d calls", err, calls)
		}
	}, w)
}

func zartExhausted(t *testing.T) {
	calls := 0
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
		_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) {
			calls++
			return 0, &cardDeclined{"4711"}
		}, pawl.Timeout("1h"), pawl.Retry("fixed(3, 1m)"))
		isErr(t, err, pawl.ErrRetriesExhausted)
		var own *cardDeclined
		if !errors.As(err, &own) {
			t.Errorf("%v has lost the last failure", err)
		}
		return "went on", nil
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		r := begin(t, e, w, nothing{})
		e.Skip(90 * time.Second)
		s := e.Step("run", "s")
		if s.Phase != "backing_off" || s.Attempts != 2 || s.Next.IsZero() {
			t.Errorf("between attempts: %+v", s)
		}
		if s.Failure == nil || s.Failure.Type != "card_declined" {
			t.Errorf("the failure in between is %+v", s.Failure)
		}
		e.WantDeadline("run", "s", time.Hour)
		if got, err := result(t, e, r); err != nil || got != "went on" || calls != 3 {
			t.Errorf("%q, %v, %d calls", got, err, calls)
		}
		e.WantAttempts("run", "s", 3)
	}, w)
}

func zartHierarchy(t *testing.T) {
	for name, c := range map[string]struct {
		opts []pawl.StepOption
		want time.Duration
	}{
		"no timeout": {nil, time.Hour}, "sooner": {[]pawl.StepOption{pawl.Timeout("10m")}, 10 * time.Minute},
		"later": {[]pawl.StepOption{pawl.Timeout("5h")}, time.Hour},
	} {
		var budget time.Duration
		w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
			return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
				at, _ := ctx.Deadline()
				budget = time.Until(at)
				return 0, idle(ctx, 24*time.Hour)
			}, c.opts...)
		}, pawl.ExecutionTimeout("1h"))
		goEnv(t, func(t *testing.T, e goProgram) {
			start := time.Now()
			if _, err := result(t, e, begin(t, e, w, nothing{})); err == nil {
				t.Error("it succeeded")
			}
			took(t, start, c.want)
			if budget.Round(time.Second) != c.want {
				t.Errorf("%s: the step had %s, want %s", name, budget, c.want)
			}
		}, w)
	}
}

func zartSleep(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, d string) (int, error) { return 1, pawl.Sleep(ctx, "s", d) },
		pawl.ExecutionTimeout("1h"), pawl.Defaults(pawl.Timeout("1s")))
	goEnv(t, func(t *testing.T, e goProgram) {
		if got, err := result(t, e, begin(t, e, w, "30m")); err != nil || got != 1 {
			t.Errorf("%d, %v", got, err)
		}
		start := time.Now()
		_, err := result(t, e, begin(t, e, w, "2h"))
		isErr(t, err, pawl.ErrTimedOut)
		took(t, start, time.Hour)
	}, w)
}

func zartFixed(t *testing.T) {
	var at []time.Duration
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		start := pawl.Now(ctx)
		return pawl.Step(ctx, "s", func(context.Context) (int, error) {
			at = append(at, time.Since(start).Round(time.Second))
			return 0, errors.New("no")
		}, pawl.Retry("fixed(3, 1s)"))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		if _, err := result(t, e, begin(t, e, w, nothing{})); err == nil || fmt.Sprint(at) != "[0s 1s 2s]" {
			t.Errorf("attempts at %v; %v", at, err)
		}
	}, w)
}

func zartThreeWay(t *testing.T) {
	var outcomes []string
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		outcomes = nil
		look := func(name string, fn func(context.Context) (int, error), opts ...pawl.StepOption) {
			v, err := pawl.Step(ctx, name, fn, opts...)
			var own *cardDeclined
			step := &pawl.StepError{}
			business := errors.As(err, &step) && step.Own()
			outcomes = append(outcomes, fmt.Sprint(v, err == nil, errors.As(err, &own) && own.Card == "4711", business,
				errors.Is(err, pawl.ErrTimedOut), errors.Is(err, pawl.ErrRetriesExhausted), step.Attempts))
		}
		look("value", func(context.Context) (int, error) { return 5, nil })
		look("business", func(context.Context) (int, error) { return 0, &cardDeclined{"4711"} })
		look("final", func(context.Context) (int, error) { return 0, pawl.NonRetryable(&cardDeclined{"4711"}) },
			pawl.Retry("fixed(3, 1s)"))
		look("exhausted", func(context.Context) (int, error) { return 0, &cardDeclined{"4711"} },
			pawl.Retry("fixed(3, 1s)"))
		look("late", func(ctx context.Context) (int, error) { return 0, idle(ctx, time.Hour) }, pawl.Timeout("1s"))
		_, err := pawl.Event[int]("never").Wait(ctx, pawl.Within("1s"))
		outcomes = append(outcomes, fmt.Sprint(errors.Is(err, pawl.ErrDeadlineExceeded)))
		return 1, pawl.Sleep(ctx, "rest", "1h")
	})
	want := "[5 true false false false false 0 0 false true true false false 1 0 false true true false false 1 " +
		"0 false true false false true 3 0 false false false true false 1 true]"
	goEnv(t, func(t *testing.T, e goProgram) {
		r := begin(t, e, w, nothing{})
		e.Skip(30 * time.Minute)
		if fmt.Sprint(outcomes) != want {
			t.Errorf("got  %s\nwant %s", outcomes, want)
		}
		outcomes = nil
		e.Restart() // the body is called again, with what is recorded
		if _, err := result(t, e, r); err != nil || fmt.Sprint(outcomes) != want {
			t.Errorf("after a restart\ngot  %s\nwant %s; %v", outcomes, want, err)
		}
	}, w)
}
