package facetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// panicky returns an observer that panics whenever it is told something, and counts that.
func panicky(told *atomic.Int64) pawl.Observer {
	broken := func() {
		told.Add(1)
		panic("the metrics are broken")
	}
	run := func(client.RunObservation) { broken() }
	attempt := func(client.AttemptObservation) { broken() }
	return pawl.Observer{
		RunStarted: run, RunEnded: run, BodyStopped: run,
		AttemptStarted: attempt, AttemptHeld: attempt, AttemptEnded: attempt,
		TimerFired: func(time.Time, time.Time) { broken() },
		Committed:  func(time.Duration, int, int) { broken() },
	}
}

// brokenLog is a log handler that panics. broken names the method that does.
type brokenLog struct {
	slog.Handler
	broken string
}

func (l brokenLog) call(method string) {
	if l.broken == method {
		panic("the log is broken")
	}
}

func (l brokenLog) Enabled(context.Context, slog.Level) bool {
	l.call("enabled")
	return true
}

func (l brokenLog) Handle(context.Context, slog.Record) error {
	l.call("handle")
	return nil
}

func (l brokenLog) WithAttrs([]slog.Attr) slog.Handler {
	l.call("with")
	return l
}

func (l brokenLog) WithGroup(string) slog.Handler {
	l.call("with")
	return l
}

// TestBrokenHooksRepeatNothing checks that a panic in the program's plugged-in functions neither ends the process nor
// repeats a step whose function has returned.
func TestBrokenHooksRepeatNothing(t *testing.T) {
	after := func(
		ctx context.Context, _ client.AttemptInfo, next func(context.Context) ([]byte, error),
	) ([]byte, error) {
		_, _ = next(ctx)
		panic("the interceptor is broken")
	}
	var told atomic.Int64
	for name, cfg := range map[string]pawl.Config{
		"observer":     {Observer: panicky(&told)},
		"interceptor":  {Intercept: after},
		"log, enabled": {Log: slog.New(brokenLog{broken: "enabled"})},
		"log, handle":  {Log: slog.New(brokenLog{broken: "handle"})},
		"log, with":    {Log: slog.New(brokenLog{broken: "with"})},
		"all": {
			Observer: panicky(&told), Intercept: after, Log: slog.New(brokenLog{broken: "handle"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testBrokenHooks(t, cfg) })
		})
	}
}

func testBrokenHooks(t *testing.T, cfg pawl.Config) {
	charged, refused, hooked := 0, 0, 0
	errRefused := errors.New("refused")
	w := pawl.Define("pay", func(ctx pawl.Context, _ int) (string, error) {
		pawl.Logger(ctx).WithGroup("g").Info("begins", "a", 1)
		_, err := pawl.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			charged++
			pawl.Heartbeat[func()]{}.Beat(ctx, func() {}) // cannot be encoded, which is logged
			return 7, nil
		}, pawl.Retry("fixed(3, 1s)"))
		if err != nil {
			return "", err
		}
		_, err = pawl.Step(ctx, "refuse", func(context.Context) (int, error) {
			refused++
			return 0, pawl.NonRetryable(errRefused)
		}, pawl.Retry("fixed(3, 1s)"))
		return fmt.Sprint(err), nil
	}, pawl.OnExit(func(context.Context, int, error) error {
		hooked++
		return nil
	}))
	stuck := pawl.Define("stuck", func(ctx pawl.Context, _ int) (int, error) { // the observer is told of its body
		<-ctx.Done() //pawlvet:ignore the test wants a body that blocks
		return 0, ctx.Err()
	}, pawl.TaskTimeout("1s"))
	cfg.Journal, cfg.Workflows = memory.New(), []pawl.Definition{w, stuck}
	e, err := pawl.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	run := started(t, e, w, "", 0)
	got, err := run.Result(t.Context())
	if err != nil || !strings.Contains(got, "refused") {
		t.Errorf("%q, %v", got, err)
	}
	blocked := started(t, e, stuck, "", 0)
	<-time.After(2 * time.Second)
	if err := e.Problem(blocked.ID); err == nil {
		t.Error("the body that blocks is not told of")
	}
	if charged != 1 || refused != 1 || hooked != 1 {
		t.Errorf("charge ran %d times, refuse %d times, the hook %d times; want one each", charged, refused, hooked)
	}
}

// TestInterceptorThatPanicsBefore checks that a step whose function has not run fails, and is tried again.
func TestInterceptorThatPanicsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var told atomic.Int64
		calls, ran := 0, 0
		cfg := pawl.Config{
			Journal: memory.New(), Log: slog.New(slog.NewTextHandler(&log, nil)), Observer: panicky(&told),
			Intercept: func(
				ctx context.Context, _ client.AttemptInfo, next func(context.Context) ([]byte, error),
			) ([]byte, error) {
				if calls++; calls == 1 {
					panic("not yet")
				}
				return next(ctx)
			},
		}
		w := pawl.Define("one", func(ctx pawl.Context, _ int) (int, error) {
			return pawl.Step(ctx, "step", func(context.Context) (int, error) {
				if ran++; ran == 1 {
					panic("the function's own")
				}
				return ran, nil
			}, pawl.Retry("fixed(5, 1s)"))
		})
		cfg.Workflows = []pawl.Definition{w}
		e, err := pawl.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		run := started(t, e, w, "", 0)
		if got, err := run.Result(t.Context()); got != 2 || err != nil || calls != 3 {
			t.Errorf("%d after %d calls of the interceptor, %v", got, calls, err)
		}
		_ = e.Close()
		if n := strings.Count(log.String(), "Config.Observer panicked"); int64(n) != told.Load() || n < 10 {
			t.Errorf("the log tells of %d panics of the observer, want %d:\n%s", n, told.Load(), log.String())
		}
	})
}

// TestHookLimits checks that a hook has a minute, unless its options bound it or its attempts.
func TestHookLimits(t *testing.T) {
	for name, c := range map[string]struct {
		opts []pawl.StepOption
		ends time.Duration // time until it is told to stop
	}{
		"no option":          {nil, time.Minute},
		"no time limit":      {[]pawl.StepOption{pawl.HeartbeatTimeout("2h")}, time.Minute},
		"attempt":            {[]pawl.StepOption{pawl.AttemptTimeout("1h")}, time.Hour},
		"step":               {[]pawl.StepOption{pawl.Timeout("3h")}, 3 * time.Hour},
		"deadline":           {[]pawl.StepOption{pawl.WorkTimeout("2h")}, 2 * time.Hour},
		"attempt and longer": {[]pawl.StepOption{pawl.AttemptTimeout("1h"), pawl.Timeout("3h")}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var took time.Duration
				w := pawl.Define("hooked", func(pawl.Context, int) (int, error) { return 1, nil },
					pawl.OnExit(func(ctx context.Context, _ int, _ error) error {
						begin := time.Now()
						<-ctx.Done()
						took = time.Since(begin)
						return ctx.Err()
					}, c.opts...))
				e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{w}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = e.Close() }()
				run := started(t, e, w, "", 0)
				if _, err := run.Result(t.Context()); err != nil {
					t.Error(err)
				}
				if took != c.ends {
					t.Errorf("the hook was told to stop after %s, want %s", took, c.ends)
				}
			})
		})
	}
}

// TestLoggerSaysThingsOnce checks that a body that goes on in another process logs nothing a second time.
func TestLoggerSaysThingsOnce(t *testing.T) {
	w := pawl.Define("talk", func(ctx pawl.Context, _ none) (string, error) {
		log := pawl.Logger(ctx).WithGroup("body").With("by", "test")
		for i := range 3 {
			log.Info("before", "i", i)
			if err := pawl.Sleep(ctx, "nap", "1h"); err != nil {
				return "", err
			}
		}
		log.Info("after")
		return "", nil
	})
	var out bytes.Buffer
	var id string
	pawltest.RunWith(t, pawl.Config{Log: slog.New(slog.NewTextHandler(&out, nil)), Workflows: []pawl.Definition{w}},
		func(t *testing.T, e *pawltest.Env) {
			r := started(t, e, w, "r", none{})
			id = r.ID
			for range 3 {
				e.Skip(50 * time.Minute)
				e.Crash(w)
			}
			if _, err := reopened(e, r).Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	for _, line := range []string{"body.by=test body.i=0\n", "body.by=test body.i=1\n", "body.i=2\n", "msg=after run=" +
		id + " workflow=talk body.by=test\n"} {
		if got := strings.Count(out.String(), line); got != 1 {
			t.Errorf("%q is there %d times:\n%s", line, got, &out)
		}
	}
}
