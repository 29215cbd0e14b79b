package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/dialect/temporal"
	"github.com/pawl-dev/pawl/dialect/zart"
)

func init() {
	for id, test := range map[string]func(t *testing.T){
		"T4": temporalScheduleToStartOption, "T5": temporalStartToCloseOption, "T6": temporalScheduleToCloseOption,
		"T7": temporalHeartbeatOption, "T8": temporalDefaultsOption, "T9": temporalAttemptsOption,
		"T10": temporalTypesOption,
		"T11": temporalWorkflowOption, "T12": temporalCronOption,
		"Z2": zartHandlerOption, "Z4": zartGlobalOption, "Z5": zartPerAttemptOption, "Z15": zartFixedOption,
	} {
		addDialect(id, func(t *testing.T) { t.Run("go options", test) })
	}
}

// attempts runs a step with an option until it ends and returns when its attempts began, in seconds, and its error. do
// is what each attempt does.
func attempts(t *testing.T, option pawl.StepOption, do func(ctx context.Context, n int) error) ([]float64,
	*pawl.StepError,
) {
	t.Helper()
	var at []float64
	var ended *pawl.StepError
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		start := pawl.Now(ctx)
		err := pawl.Do(ctx, "s", func(ctx context.Context) error {
			at = append(at, time.Since(start).Round(time.Second).Seconds())
			return do(ctx, len(at))
		}, option)
		if err != nil && !errors.As(err, &ended) {
			t.Errorf("%T %v", err, err)
		}
		return 0, nil
	}, pawl.Defaults(pawl.Timeout("5s"), pawl.Retry("fixed(2, 9s)")))
	goEnv(t, func(t *testing.T, e goProgram) {
		if _, err := result(t, e, begin(t, e, w, nothing{})); err != nil {
			t.Error(err)
		}
	}, w)
	return at, ended
}

func wantStarts(t *testing.T, got []float64, want string) {
	t.Helper()
	if fmt.Sprint(got) != want {
		t.Errorf("attempts at %v, want %s", got, want)
	}
}

func wantLimit(t *testing.T, err *pawl.StepError, limit string) {
	t.Helper()
	if err == nil || err.Limit.String() != limit {
		t.Errorf("%+v, want limit %s", err, limit)
	}
}

var (
	fails = func(context.Context, int) error { return errors.New("no") }
	sits  = func(ctx context.Context, _ int) error { return idle(ctx, 1000*time.Hour) }
)

// activity gives a step options that replace the defaults as a whole.
func activity(o temporal.ActivityOptions) pawl.StepOption { return temporal.Activity(o) }

func temporalScheduleToStartOption(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
		_, err := pawl.HandlerRef[any, int]("handler").Call(ctx, "s", nothing{}, activity(temporal.ActivityOptions{
			ScheduleToStartTimeout: time.Minute, StartToCloseTimeout: time.Hour,
		}), pawl.Queue("nobody"))
		var step *pawl.StepError
		if !errors.As(err, &step) {
			return "", err
		}
		return fmt.Sprint(step.Limit, step.Attempts), nil
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		if got, err := result(t, e, begin(t, e, w, nothing{})); err != nil || got != "scheduleToStart 1" {
			t.Errorf("%s, %v", got, err)
		}
		took(t, start, time.Minute)
	}, w)
}

func temporalStartToCloseOption(t *testing.T) {
	at, err := attempts(t, activity(temporal.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 3},
	}), sits)
	wantStarts(t, at, "[0 11 23]")
	wantLimit(t, err, "startToClose")
	at, err = attempts(t, activity(temporal.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{NonRetryableErrorTypes: []string{"TemporalTimeout:StartToClose"}},
	}), sits)
	wantStarts(t, at, "[0]")
	wantLimit(t, err, "startToClose")
}

func temporalScheduleToCloseOption(t *testing.T) {
	at, err := attempts(t, activity(temporal.ActivityOptions{
		ScheduleToCloseTimeout: 30 * time.Second,
		StartToCloseTimeout:    20 * time.Second,
	}), sits)
	wantStarts(t, at, "[0 21]")
	wantLimit(t, err, "scheduleToClose")
	for want, o := range map[string]temporal.ActivityOptions{
		"startToCloseTimeout or scheduleToCloseTimeout must be given": {HeartbeatTimeout: time.Second},
		"scheduleToCloseTimeout: -5s is negative":                     {ScheduleToCloseTimeout: -5 * time.Second},
		"heartbeatTimeout: -1s is negative": {
			StartToCloseTimeout: time.Second,
			HeartbeatTimeout:    -time.Second,
		},
	} {
		wantRefused(t, pawl.Defaults(activity(o)), want)
	}
}

// wantRefused checks that a wrong option is refused when the workflow is defined.
func wantRefused(t *testing.T, option pawl.Option, want string) {
	t.Helper()
	w := pawl.Define("w", func(pawl.Context, nothing) (int, error) { return 0, nil }, option)
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func temporalHeartbeatOption(t *testing.T) {
	at, err := attempts(t, activity(temporal.ActivityOptions{
		StartToCloseTimeout: time.Hour, HeartbeatTimeout: 10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
	}), func(ctx context.Context, n int) error {
		if last, ok := (pawl.Heartbeat[int]{}).Last(ctx); n == 2 && (!ok || last != 7) {
			t.Errorf("the second attempt reads %d", last)
		}
		pawl.Heartbeat[int]{}.Beat(ctx, 7)
		return sits(ctx, n)
	})
	wantStarts(t, at, "[0 11]")
	wantLimit(t, err, "heartbeat")
}

func temporalDefaultsOption(t *testing.T) {
	at, err := attempts(t, activity(temporal.ActivityOptions{StartToCloseTimeout: time.Minute}),
		func(_ context.Context, n int) error {
			if n == 10 {
				return nil
			}
			return errors.New("no")
		})
	wantStarts(t, at, "[0 1 3 7 15 31 63 127 227 327]")
	if err != nil {
		t.Error(err)
	}
}

func temporalAttemptsOption(t *testing.T) {
	policyOf := func(r temporal.RetryPolicy) pawl.StepOption {
		return activity(temporal.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &r})
	}
	at, _ := attempts(t, policyOf(temporal.RetryPolicy{
		InitialInterval: 3 * time.Second, BackoffCoefficient: 1,
		MaximumAttempts: 4,
	}), fails)
	wantStarts(t, at, "[0 3 6 9]")
	at, _ = attempts(t, policyOf(temporal.RetryPolicy{MaximumAttempts: 1, BackoffCoefficient: 0.5}), fails)
	wantStarts(t, at, "[0]")
	wantRefused(t, pawl.Defaults(policyOf(temporal.RetryPolicy{MaximumAttempts: -1})),
		"retryPolicy.maximumAttempts: -1 is below 0")
	wantRefused(t, pawl.Defaults(policyOf(temporal.RetryPolicy{BackoffCoefficient: 0.5})),
		"retryPolicy.backoffCoefficient: 0.5 is below 1")
}

func temporalTypesOption(t *testing.T) {
	at, err := attempts(t, activity(temporal.ActivityOptions{
		StartToCloseTimeout: time.Minute,
		RetryPolicy:         &temporal.RetryPolicy{NonRetryableErrorTypes: []string{"card_declined"}},
	}), func(_ context.Context, n int) error {
		if n == 2 {
			return &cardDeclined{"4711"}
		}
		return errors.New("no")
	})
	wantStarts(t, at, "[0 1]")
	var own *cardDeclined
	if !errors.As(err, &own) {
		t.Errorf("%v", err)
	}
}

// temporalWorkflowOption checks the timeouts of the chain and of one run, and a retry policy with its defaults.
func temporalWorkflowOption(t *testing.T) {
	var at []time.Duration
	var start time.Time
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		at = append(at, pawl.Now(ctx).Sub(start).Round(time.Second))
		return 0, pawl.Sleep(ctx, "s", "1d")
	}, temporal.Workflow(temporal.WorkflowOptions{
		WorkflowExecutionTimeout: time.Hour, WorkflowRunTimeout: 25 * time.Minute, WorkflowTaskTimeout: time.Hour,
		RetryPolicy: &temporal.RetryPolicy{},
	}))
	goEnv(t, func(t *testing.T, e goProgram) {
		start = time.Now()
		_, err := result(t, e, begin(t, e, w, nothing{}))
		isErr(t, err, pawl.ErrTimedOut)
		took(t, start, time.Hour)
		at = slices.Compact(at) // a body is called again when its run has expired
		if got := fmt.Sprint(at); !strings.HasPrefix(got, "[0s 25m1s 50m3s]") {
			t.Errorf("runs at %s", got)
		}
	}, w)
	for want, o := range map[string]temporal.WorkflowOptions{
		"workflowRunTimeout: -1s is negative": {WorkflowRunTimeout: -time.Second},
		"retryPolicy.maximumAttempts: -2 is below 0": {
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: -2},
		},
		"TemporalTimeout:StartToClose has no counterpart": {
			RetryPolicy: &temporal.RetryPolicy{NonRetryableErrorTypes: []string{"TemporalTimeout:StartToClose"}},
		},
		`cronSchedule: cron: "0 12 * *" has 4 fields where 5 are expected`: {CronSchedule: "0 12 * *"},
		"cronSchedule: unknown time zone Mars/Base; name one such as Europe/Berlin": {
			CronSchedule: "CRON_TZ=Mars/Base @daily",
		},
	} {
		wantRefused(t, temporal.Workflow(o), want)
	}
}

// temporalCronOption checks that the option makes one run after the other of one chain; a start returns at once, and
// its result is that of the chain.
func temporalCronOption(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) { return 0, pawl.Sleep(ctx, "s", "1d") },
		temporal.Workflow(temporal.WorkflowOptions{
			CronSchedule: "*/10 * * * *", WorkflowRunTimeout: 7 * time.Minute,
			WorkflowExecutionTimeout: 25 * time.Minute, // counted from the first firing
		}))
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		r := begin(t, e, w, nothing{})
		e.WantPhase("run", "pending")
		e.Skip(15 * time.Minute)
		e.Restart()
		_, err := result(t, e, r)
		isErr(t, err, pawl.ErrTimedOut)
		took(t, start, 35*time.Minute)
		runs, err := goClient(t, e).ListRuns(t.Context(), client.Query{Workflow: "w"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range runs {
			got = append(got, fmt.Sprint(r.CreatedAt.Sub(start), " ", r.EndedAt.Sub(start), " ", r.Phase))
		}
		if want := "[27m0s 35m0s timed_out 17m0s 27m0s timed_out 0s 17m0s timed_out]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}, w)
}

func zartHandlerOption(t *testing.T) {
	handled := 0
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) { return 0, pawl.Sleep(ctx, "s", "365d") },
		zart.Handler(zart.HandlerAttributes{Timeout: "30m"}),
		pawl.OnFailure(func(context.Context, nothing, error) error { handled++; return nil }))
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		_, err := result(t, e, begin(t, e, w, nothing{}))
		isErr(t, err, pawl.ErrTimedOut)
		took(t, start, 30*time.Minute)
		if handled != 1 {
			t.Errorf("the handler ran %d times", handled)
		}
	}, w)
	wantRefused(t, zart.Handler(zart.HandlerAttributes{Timeout: "1h30m"}),
		`timeout: "1h30m": write a number and s, m, h or d`)
}

func zartGlobalOption(t *testing.T) {
	at, err := attempts(t, zart.Step(zart.StepAttributes{Timeout: "5m", Retry: "fixed(3, 1s)"}),
		func(ctx context.Context, n int) error {
			if n == 1 {
				_ = idle(ctx, 30*time.Second)
				return errors.New("no")
			}
			return sits(ctx, n)
		})
	wantStarts(t, at, "[0 31]")
	wantLimit(t, err, "scheduleToClose")
}

func zartPerAttemptOption(t *testing.T) {
	at, err := attempts(t, zart.Step(zart.StepAttributes{
		Timeout: "30s", TimeoutScope: zart.PerAttempt,
		Retry: "fixed(3, 1s)",
	}), func(ctx context.Context, n int) error {
		if n < 3 {
			_ = idle(ctx, 29*time.Second)
			return errors.New("no")
		}
		return sits(ctx, n)
	})
	wantStarts(t, at, "[0 30 60]")
	wantLimit(t, err, "startToClose")
}

func zartFixedOption(t *testing.T) {
	at, _ := attempts(t, zart.Step(zart.StepAttributes{Retry: "fixed(3, 1s)"}), fails)
	wantStarts(t, at, "[0 1 2]")
	at, _ = attempts(t, zart.Step(zart.StepAttributes{}), fails)
	wantStarts(t, at, "[0]")
	for want, a := range map[string]zart.StepAttributes{
		`timeout_scope: "attempt" where global or per_attempt is expected`: {Timeout: "5s", TimeoutScope: "attempt"},
		`retry: "fixed(3, 500ms)": write fixed(3, 1s)`:                     {Retry: "fixed(3, 500ms)"},
		`timeout: "5": write a number and s, m, h or d`:                    {Timeout: "5"},
	} {
		wantRefused(t, pawl.Defaults(zart.Step(a)), want)
	}
}
