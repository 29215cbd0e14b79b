package pawltest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var renew = pawl.Define("renew", func(ctx pawl.Context, customer string) (int, error) {
	paid := 0
	for range 12 {
		if err := pawl.Sleep(ctx, "month", "30d"); err != nil {
			return paid, err
		}
		cents, err := pawl.Step(ctx, "charge", func(context.Context) (int, error) {
			return 0, errors.New("tests do not reach the bank")
		}, pawl.Retry("exponential(4, 1h)"), pawl.Timeout("1d"))
		if err != nil {
			return paid, err
		}
		paid += cents
	}
	return paid, nil
})

func TestAYearPasses(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[int](e, "charge").Fail(errors.New("the bank is closed")).Times(2).Return(999)
		pawltest.FakeStep[int](e, "charge#*").Return(999)
		run, err := renew.Start(t.Context(), e, "ann", "ann")
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(100 * 24 * time.Hour)
		e.WantPhase("ann", "waiting")
		e.WantAttempts("ann", "charge", 3)
		e.WantAttempts("ann", "charge#2", 1)
		e.WantDeadline("ann", "charge", 24*time.Hour)
		if got, err := run.Result(t.Context()); err != nil || got != 12*999 {
			t.Errorf("%d, %v", got, err)
		}
		history, err := e.History(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		pawltest.Replay(t, renew, history)
	}, renew)
}

func TestCrash(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ string) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Hour):
				return pawl.Attempt(ctx).Number, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
	})
	var log bytes.Buffer
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		start := time.Now()
		run, err := w.Start(t.Context(), e, "w", "")
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(30 * time.Minute)
		e.Crash()
		got, err := pawl.RunOf[int](e, run.ID).Result(t.Context())
		if took := time.Since(start); err != nil || got != 1 || took != 90*time.Minute {
			t.Errorf("%d, %v after %s; want the attempt made again, which counts as the first", got, err, took)
		}
	})
	if strings.Contains(log.String(), "journal") {
		t.Errorf("a dead process writes into the log:\n%s", &log)
	}
}

// TestFakeAfterRestart checks that when an engine is opened again, fakes apply to its attempts, however early those
// start.
func TestFakeAfterRestart(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ string) (int, error) {
		return pawl.Step(ctx, "s", func(context.Context) (int, error) { return 0, errors.New("not faked") },
			pawl.Retry("fixed(9, 1m)"))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[int](e, "s").Do(func(ctx context.Context, _ client.AttemptInfo) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		for range 20 {
			if _, err := w.Start(t.Context(), e, "", ""); err != nil {
				t.Fatal(err)
			}
		}
		e.Settle()
		pawltest.FakeStep[int](e, "s").Return(7)
		e.Restart()
		e.Settle()
		runs, err := e.ListRuns(t.Context(), client.Query{Phases: []client.Phase{"succeeded"}})
		if err != nil || len(runs) != 20 {
			t.Errorf("%d runs of 20, %v", len(runs), err)
		}
	}, w)
}
