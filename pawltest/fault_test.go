package pawltest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

var errLine = errors.New("the line is dead")

func init() {
	scenarios["a fault that is not met"] = scenario{func(_ *testing.T, e *pawltest.Env) {
		e.FailCall("StartRun", errLine)
		e.LoseAnswer("StartRun", errLine)
	}, []string{"2 faults of StartRun were met by no call"}}
	scenarios["a call that cannot fail"] = scenario{func(_ *testing.T, e *pawltest.Env) {
		e.FailCall("Start", errLine)
	}, []string{`calls of "Start" cannot fail: those of StartRun, SendEvent`}}
	scenarios["a stuck body that nobody waits for"] = scenario{func(t *testing.T, e *pawltest.Env) {
		startStuck(t, e)
	}, []string{"a run is stuck when the test ends; if the test is about that, call AllowStuck: run "}}
}

// startStuck starts a run whose body does something else each time, so that it never goes on.
func startStuck(t *testing.T, e *pawltest.Env) {
	t.Helper()
	calls := 0
	w := pawl.Define("stuck", func(ctx pawl.Context, _ int) (int, error) {
		calls++
		if calls > 1 {
			return 1, pawl.Do(ctx, "other", func(context.Context) error { return nil })
		}
		return 1, pawl.Sleep(ctx, "rest", "1h")
	})
	if _, err := w.Start(t.Context(), e, "stuck", 1); err != nil {
		t.Fatal(err)
	}
	e.Skip(3 * time.Hour)
}

// TestFaultsOfClients checks that a call that fails is not made, and that one whose answer was lost is: asked again
// with a key or an id it changes nothing more.
func TestFaultsOfClients(t *testing.T) {
	const paid pawl.Event[int] = "paid"
	w := pawl.Define("order", func(ctx pawl.Context, _ int) (int, error) { return paid.Wait(ctx) })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		ctx := t.Context()
		e.FailCall("StartRun", errLine)
		if _, err := w.Start(ctx, e, "a", 1); !errors.Is(err, errLine) {
			t.Errorf("a start that fails: %v", err)
		}
		if _, err := e.DescribeRun(ctx, "a"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a start that failed was made: %v", err)
		}
		e.LoseAnswer("StartRun", errLine)
		for range 2 {
			if r, err := w.Start(ctx, e, "b", 1, pawl.IdempotencyKey("k")); err == nil && !r.Existing {
				t.Error("the start whose answer was lost was not made")
			}
		}
		e.FailCall("SendEvent", errLine)
		e.LoseAnswer("SendEvent", errLine)
		for _, want := range []error{errLine, errLine, nil} {
			if err := paid.Send(ctx, e, "b", 7, pawl.SendID("1")); !errors.Is(err, want) {
				t.Errorf("an event: %v, want %v", err, want)
			}
		}
		if n, err := pawl.RunOf[int](e, "b").Result(ctx); n != 7 || err != nil {
			t.Errorf("the run ends with %d, %v", n, err)
		}
		e.FailCall("Operate", errLine)
		e.Restart() // faults stay, as fakes do
		if err := pawl.RunOf[int](e, "b").Cancel(ctx, ""); !errors.Is(err, errLine) {
			t.Errorf("a cancel: %v", err)
		}
	}, w)
}

// TestStuckIsAllowed checks that a test that is about a stuck body passes, and that a run which was ended is not stuck.
func TestStuckIsAllowed(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		e.AllowStuck()
		startStuck(t, e)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		startStuck(t, e)
		if err := pawl.RunOf[int](e, "stuck").Terminate(t.Context(), "seen"); err != nil {
			t.Fatal(err)
		}
		e.WantPhase("stuck", client.PhaseTerminated)
	})
}

// TestRunAt checks that the engine is opened at the instant of choice, and that time goes on from there.
func TestRunAt(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 28, 23, 0, 0, 0, berlin) // an hour before the day that has no 02:30
	w := pawl.Define("job", func(ctx pawl.Context, _ int) (string, error) {
		return pawl.Info(ctx).StartedAt.In(berlin).Format(time.DateTime), nil
	})
	pawltest.RunAt(t, start, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, e *pawltest.Env) {
		if !time.Now().Equal(start) {
			t.Errorf("the test begins at %s", time.Now())
		}
		s := client.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}
		if _, err := w.EnsureSchedule(t.Context(), e, "nightly", s, 1); err != nil {
			t.Fatal(err)
		}
		e.Skip(5 * time.Hour)
		runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "job"})
		if err != nil || len(runs) != 1 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		at, err := pawl.RunOf[string](e, runs[0].ID).Result(t.Context())
		if err != nil || at != "2026-03-29 03:00:00" {
			t.Errorf("fired at %s, %v", at, err)
		}
	})
}
