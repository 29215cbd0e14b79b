package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addGo("T1", temporalExecutionTimeout)
	addGo("T2", temporalRunTimeout)
	addGo("T3", temporalTaskTimeout)
	addGo("T4", temporalScheduleToStart)
	addGo("T5", temporalStartToClose)
	addGo("T6", temporalScheduleToClose)
	addGo("T7", temporalHeartbeat)
	addGo("T8", temporalDefaults)
	addGo("T9", temporalCoefficient)
	addGo("T10", temporalNonRetryable)
	addGo("T11", temporalRunRetry)
	addGo("T12", temporalCron)
}

// temporalExecutionTimeout checks that the timeout spans retries of the run and continuations.
func temporalExecutionTimeout(t *testing.T) {
	runs := map[string]bool{}
	w := pawl.Define("w", func(ctx pawl.Context, n int) (int, error) {
		runs[pawl.Info(ctx).ID] = true
		if err := pawl.Sleep(ctx, "s", "25m"); err != nil {
			return 0, err
		}
		if n%2 == 0 {
			return 0, errors.New("again")
		}
		return 0, pawl.ContinueAsNew(ctx, n+2)
	}, pawl.ExecutionTimeout("1h"), pawl.RunRetry("fixed(9, 1m)"))
	for _, n := range []int{0, 1} {
		clear(runs)
		goEnv(t, func(t *testing.T, e goProgram) {
			start := time.Now()
			_, err := result(t, e, begin(t, e, w, n))
			isErr(t, err, pawl.ErrTimedOut)
			took(t, start, time.Hour)
			if len(runs) != 3 {
				t.Errorf("%d runs, want three", len(runs))
			}
		}, w)
	}
}

// temporalRunTimeout bounds one run of the chain; the next one has a fresh one. Without one it is the execution's,
// which also cuts a longer one.
func temporalRunTimeout(t *testing.T) {
	runs := map[string]bool{}
	w := pawl.Define("w", func(ctx pawl.Context, left int) (int, error) {
		runs[pawl.Info(ctx).ID] = true
		if left == 0 {
			return 0, pawl.Sleep(ctx, "too long", "1d")
		}
		if err := pawl.Sleep(ctx, "s", "20m"); err != nil {
			return 0, err
		}
		return 0, pawl.ContinueAsNew(ctx, left-1)
	}, pawl.RunTimeout("30m"))
	whole := pawl.Define("whole", func(ctx pawl.Context, _ nothing) (time.Duration, error) {
		//pawlvet:ignore the mistake that is tested
		at, _ := ctx.Deadline()
		return at.Sub(pawl.Now(ctx)), nil
	}, pawl.ExecutionTimeout("2h"))
	cut := pawl.Define("cut", func(ctx pawl.Context, _ nothing) (int, error) { return 0, pawl.Sleep(ctx, "s", "1d") },
		pawl.ExecutionTimeout("10m"), pawl.RunTimeout("20m"))
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		_, err := result(t, e, begin(t, e, w, 3))
		isErr(t, err, pawl.ErrTimedOut)
		took(t, start, 90*time.Minute)
		if len(runs) != 4 {
			t.Errorf("%d runs, want 4", len(runs))
		}
		if got, err := result(t, e, begin(t, e, whole, nothing{})); err != nil || got != 2*time.Hour {
			t.Errorf("the run has %s, %v", got, err)
		}
		start = time.Now()
		_, err = result(t, e, begin(t, e, cut, nothing{}))
		isErr(t, err, pawl.ErrTimedOut)
		took(t, start, 10*time.Minute)
	}, w, whole, cut)
}

// temporalTaskTimeout checks that a body that does not reach its next step is called again in another goroutine, any
// number of times. If the engine ends, the next one calls the body.
func temporalTaskTimeout(t *testing.T) {
	calls := 0
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		if calls++; calls <= 3 {
			<-ctx.Done() //pawlvet:ignore it blocks outside of steps
		}
		return pawl.Step(ctx, "s", func(context.Context) (int, error) { return calls, nil })
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		r := begin(t, e, w, nothing{})
		e.Skip(5 * time.Second)
		e.Restart()
		e.Skip(10*time.Second + time.Millisecond)
		e.WantStuck(r.ID, "temporalTaskTimeout")
		if got, err := result(t, e, r); err != nil || got != 4 {
			t.Errorf("%d, %v", got, err)
		}
		took(t, start, 45*time.Second) // 5s, 10s, at once again 10s, then after a pause
	}, w)
}

// temporalScheduleToStart checks that the limit is per attempt and never retried.
func temporalScheduleToStart(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
		_, err := pawl.HandlerRef[any, int]("handler").Call(ctx, "s", nothing{}, pawl.Queue("q"),
			pawl.QueueTimeout("1m"), pawl.Retry("fixed(5, 2m)"))
		isErr(t, err, pawl.ErrTimedOut)
		var step *pawl.StepError
		if !errors.As(err, &step) || step.Limit != policy.LimitScheduleToStart {
			t.Errorf("%v", err)
		}
		return fmt.Sprint(step.Attempts), nil
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		if got, err := result(t, e, begin(t, e, w, nothing{})); err != nil || got != "1" {
			t.Errorf("%s attempts, %v", got, err)
		}
		took(t, start, time.Minute)
		// The clock is the attempt's: with a worker that fails the first one, the second has its own minute.
		calls := 0
		handler := pawl.Handle("handler", func(ctx context.Context, _ nothing) (int,
			error,
		) {
			calls++
			return 0, errors.New("no")
		})
		if err := e.Serve("q", 1, handler); err != nil {
			t.Fatal(err)
		}
		r := begin(t, e, exhausts, nothing{})
		if got, err := result(t, e, r); err != nil || got != 3 || calls != 3 {
			t.Errorf("%d attempts, %d calls, %v", got, calls, err)
		}
	}, w, exhausts)
}

var exhausts = pawl.Define("exhausts", func(ctx pawl.Context, _ nothing) (int, error) {
	_, err := pawl.HandlerRef[any, int]("handler").Call(ctx, "s", nothing{}, pawl.Queue("q"), pawl.QueueTimeout("1m"),
		pawl.Retry("fixed(3, 2m)"))
	var step *pawl.StepError
	if !errors.As(err, &step) || !errors.Is(err, pawl.ErrRetriesExhausted) {
		return 0, err
	}
	return step.Attempts, nil
})

// temporalStartToClose checks that the limit is per attempt, is retried, and its timer starts again.
func temporalStartToClose(t *testing.T) {
	var budgets []time.Duration
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			at, _ := ctx.Deadline()
			budgets = append(budgets, time.Until(at).Round(time.Second))
			if pawl.Attempt(ctx).Number < 3 {
				return 0, idle(ctx, time.Hour)
			}
			return 7, nil
		}, pawl.AttemptTimeout("1m"), pawl.Retry("fixed(3, 10s)"))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		if got, err := result(t, e, begin(t, e, w, nothing{})); err != nil || got != 7 {
			t.Errorf("%d, %v", got, err)
		}
		took(t, start, 140*time.Second)
		if fmt.Sprint(budgets) != "[1m0s 1m0s 1m0s]" {
			t.Errorf("the attempts had %v", budgets)
		}
	}, w)
}

// temporalScheduleToClose spans all attempts, and its expiry is not retried.
func temporalScheduleToClose(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
		_, err := pawl.Step(ctx, "s", func(ctx context.Context) (int, error) { return 0, idle(ctx, 40*time.Second) },
			pawl.Timeout("1m"), pawl.AttemptTimeout("30s"),
			pawl.Retry(pawl.RetryPolicy{MaxAttempts: -1, InitialInterval: time.Second}))
		var step *pawl.StepError
		if !errors.As(err, &step) || !errors.Is(err, pawl.ErrTimedOut) {
			return "", err
		}
		if cause := step.Failure.Cause; cause == nil || cause.Limit != policy.LimitStartToClose {
			t.Errorf("%+v has lost the failure before it", step.Failure)
		}
		return fmt.Sprint(step.Limit, step.Attempts), nil
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		if got, err := result(t, e, begin(t, e, w, nothing{})); err != nil || got != "scheduleToClose 2" {
			t.Errorf("%s, %v", got, err)
		}
		took(t, start, time.Minute)
	}, w)
}

// temporalHeartbeat checks that silence fails the attempt, which is retried; the next one reads the details of the last
// heartbeat.
func temporalHeartbeat(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (string, error) {
			if last, ok := (pawl.Heartbeat[string]{}).Last(ctx); ok {
				return last, nil
			}
			for i := range 5 {
				pawl.Heartbeat[string]{}.Beat(ctx, fmt.Sprint("page ", i))
				if err := idle(ctx, 5*time.Second); err != nil {
					return "", err
				}
			}
			<-ctx.Done() // silent
			return "", context.Cause(ctx)
		}, pawl.HeartbeatTimeout("10s"), pawl.Retry("fixed(2, 1s)"))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		if got, err := result(t, e, begin(t, e, w, nothing{})); err != nil || got != "page 4" {
			t.Errorf("%q, %v", got, err)
		}
		took(t, start, 31*time.Second) // the last sign at 20s, 10s of silence, 1s of backoff
	}, w)
}

// temporalDefaults checks that the default delay is 1s, doubled for each further attempt, without end.
func temporalDefaults(t *testing.T) {
	var at []float64
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		start := pawl.Now(ctx)
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			at = append(at, time.Since(start).Round(time.Second).Seconds())
			if pawl.Attempt(ctx).Number == 7 {
				return 1, nil
			}
			return 0, errors.New("no")
		}, pawl.Retry(pawl.RetryPolicy{MaxAttempts: -1, MaxInterval: 100 * time.Second}))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		if _, err := result(t, e, begin(t, e, w, nothing{})); err != nil || fmt.Sprint(at) != "[0 1 3 7 15 31 63]" {
			t.Errorf("attempts at %v; %v", at, err)
		}
	}, w)
}

// temporalCoefficient checks that 1.0 is constant; one attempt is no retry; negative numbers are refused at the call.
func temporalCoefficient(t *testing.T) {
	var at []float64
	body := func(p pawl.RetryPolicy) func(ctx pawl.Context, _ nothing) (int, error) {
		return func(ctx pawl.Context, _ nothing) (int, error) {
			start := pawl.Now(ctx)
			return pawl.Step(ctx, "s", func(context.Context) (int, error) {
				at = append(at, time.Since(start).Round(time.Second).Seconds())
				return 0, errors.New("no")
			}, pawl.Retry(p))
		}
	}
	constant := pawl.Define("constant", body(pawl.RetryPolicy{
		MaxAttempts: 4, BackoffCoefficient: 1,
		InitialInterval: 3 * time.Second,
	}))
	once := pawl.Define("once", body(pawl.RetryPolicy{MaxAttempts: 1}))
	negative := pawl.Define("negative", body(pawl.RetryPolicy{MaxAttempts: -5}))
	goEnv(t, func(t *testing.T, e goProgram) {
		for w, want := range map[*pawl.Workflow[nothing, int]]string{
			constant: "[0 3 6 9]",
			once:     "[0]", negative: "[]",
		} {
			at = nil
			_, err := result(t, e, begin(t, e, w, nothing{}))
			if err == nil || fmt.Sprint(at) != want {
				t.Errorf("%s: attempts at %v, want %s; %v", w.Name(), at, want, err)
			}
			if w == negative && !strings.Contains(err.Error(), "maxAttempts") {
				t.Errorf("negative: %v", err)
			}
		}
	}, constant, once, negative)
}

// temporalNonRetryable checks that listed types, and errors that say so, stop at once.
func temporalNonRetryable(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, listed bool) (int, error) {
		p := pawl.RetryPolicy{MaxAttempts: 5}
		if listed {
			p.NonRetryable = []string{"card_declined"}
		}
		calls := 0
		_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) {
			if calls++; listed { //pawlvet:ignore the body is called once, and its attempts are counted
				return 0, fmt.Errorf("charging: %w", &cardDeclined{"4711"})
			}
			return 0, pawl.NonRetryable(&cardDeclined{"4711"})
		}, pawl.Retry(p))
		var own *cardDeclined
		if !errors.As(err, &own) || errors.Is(err, pawl.ErrRetriesExhausted) {
			t.Errorf("the error is %v", err)
		}
		return calls, nil
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		for _, listed := range []bool{true, false} {
			if got, err := result(t, e, begin(t, e, w, listed)); err != nil || got != 1 {
				t.Errorf("listed %t: %d attempts, %v", listed, got, err)
			}
		}
	}, w)
}

// temporalRunRetry checks that runs are not retried by default. With a retry policy they are, with the same input,
// unless they were cancelled.
func temporalRunRetry(t *testing.T) {
	runs := 0
	body := func(ctx pawl.Context, in string) (int, error) {
		runs++
		if in == "sleep" {
			return 0, pawl.Sleep(ctx, "s", "1d")
		}
		if in != "input" || pawl.Info(ctx).Attempt < 3 {
			return 0, errors.New("no")
		}
		return pawl.Info(ctx).Attempt, nil
	}
	plain, retried := pawl.Define("plain", body), pawl.Define("retried", body, pawl.RunRetry("fixed(3, 1m)"))
	goEnv(t, func(t *testing.T, e goProgram) {
		if _, err := result(t, e, begin(t, e, plain, "input")); err == nil || runs != 1 {
			t.Errorf("%d runs, %v", runs, err)
		}
		start := time.Now()
		runs = 0
		r := begin(t, e, retried, "input")
		e.Skip(30 * time.Second)
		e.Restart()
		if got, err := result(t, e, r); err != nil || got != 3 || runs != 3 {
			t.Errorf("attempt %d, %d runs, %v", got, runs, err)
		}
		took(t, start, 2*time.Minute)
		start = time.Now()
		r = begin(t, e, retried, "sleep")
		operate(t, e, pawl.Operation{Op: client.OpCancelGracefully})
		_, err := result(t, e, r)
		isErr(t, err, pawl.ErrCancelled)
		took(t, start, 0)
	}, plain, retried)
}

// temporalCron checks that the run timeout is per run, the execution timeout over all that a schedule starts.
func temporalCron(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) { return 0, pawl.Sleep(ctx, "s", "1d") },
		pawl.RunTimeout("7m"))
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		s := client.Schedule{Cron: "*/10 * * * *"}
		if _, err := w.EnsureSchedule(t.Context(), goClient(t, e), "s", s, nothing{},
			pawl.RunDeadline(start.Add(35*time.Minute))); err != nil {
			t.Fatal(err)
		}
		e.Skip(15 * time.Minute)
		e.Restart()
		e.Skip(2 * time.Hour)
		runs, err := goClient(t, e).ListRuns(t.Context(), client.Query{Workflow: "w"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range runs {
			got = append(got, fmt.Sprint(r.CreatedAt.Sub(start), " ", r.EndedAt.Sub(start), " ", r.Phase))
		}
		if want := "[30m0s 35m0s timed_out 20m0s 27m0s timed_out 10m0s 17m0s timed_out]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
		e.WantPhase("@s", "succeeded") // it is over, and its last run has ended
	}, w)
}
