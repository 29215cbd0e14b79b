package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// zartEventWait checks that a wait ends in time or as DeadlineExceeded, once and for all.
func zartEventWait(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, first string) (string, error) {
		if err := pawl.Sleep(ctx, "first", first); err != nil {
			return "", err
		}
		if _, err := pawl.Event[string]("paid").Wait(ctx, pawl.Within("1h")); err != nil {
			isErr(t, err, pawl.ErrDeadlineExceeded)
			// Trap: the body handles it and goes on, also when it is called again.
			if err := pawl.Do(ctx, "remind", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			return "reminded", pawl.Sleep(ctx, "rest", "1h")
		}
		// Trap: an event that came in time still counts after the wait's deadline has passed.
		return "paid", pawl.Sleep(ctx, "ship", "2h")
	})
	strict := pawl.Define("strict", func(ctx pawl.Context, _ nothing) (string, error) {
		return pawl.Event[string]("paid").Wait(ctx, pawl.Within("1h"))
	})
	open := pawl.Define("open", func(ctx pawl.Context, _ nothing) (string,
		error,
	) {
		return pawl.Event[string]("paid").Wait(ctx)
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		pay := func() error { return pawl.Event[string]("paid").Send(t.Context(), goClient(t, e), "run", "in full") }
		ends := func(r pawl.Run[string], want string) {
			t.Helper()
			if got, err := result(t, e, r); err != nil || got != want {
				t.Errorf("%q, %v, want %s", got, err, want)
			}
		}
		// Trap: an event after the deadline does not revive the wait, nor the run that the deadline has ended.
		r := begin(t, e, w, "0s")
		e.Skip(61 * time.Minute)
		isErr(t, pay(), nil)
		e.Restart()
		ends(r, "reminded")
		r = begin(t, e, strict, nothing{})
		_, err := result(t, e, r)
		isErr(t, err, pawl.ErrDeadlineExceeded)
		isErr(t, pay(), pawl.ErrRunClosed)
		e.WantPhase("run", "failed")
		for _, first := range []string{"0s", "45m"} { // trap: an event is also kept for a wait that is yet to come
			r = begin(t, e, w, first)
			e.Skip(30 * time.Minute)
			isErr(t, pay(), nil)
			ends(r, "paid")
		}
		r = begin(t, e, open, nothing{})
		e.Skip(forEver)
		e.WantPhase("run", "waiting")
		operate(t, e, pawl.Operation{Op: client.OpCancelGracefully})
		_, err = result(t, e, r)
		isErr(t, err, pawl.ErrCancelled)
	}, w, strict, open)
}

// zartCancel checks that a running step finishes, and no further step starts. Sleeps and waits end at once.
func zartCancel(t *testing.T) {
	second := false
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
		if err := pawl.Do(ctx, "first", func(ctx context.Context) error { return idle(ctx, time.Hour) }); err != nil {
			return 0, err
		}
		return pawl.Step(ctx, "second", func(context.Context) (int, error) {
			second = true
			return 1, nil
		})
	})
	rests := pawl.Define("rests", func(ctx pawl.Context, how string) (int, error) {
		switch how {
		case "sleep":
			return 0, pawl.Sleep(ctx, "s", "1d")
		case "wait":
			return pawl.Event[int]("never").Wait(ctx, pawl.Within("1d"))
		default:
			return pawl.Step(ctx, "s", func(context.Context) (int, error) { return 0, errors.New("no") },
				pawl.Retry("fixed(2, 1d)"))
		}
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		start := time.Now()
		r := begin(t, e, w, nothing{})
		e.Skip(time.Minute)
		operate(t, e, pawl.Operation{Op: client.OpCancelGracefully, Actor: "ann", Reason: "test"})
		_, err := result(t, e, r)
		isErr(t, err, pawl.ErrCancelled)
		e.WantPhase("run", "cancelled")
		took(t, start, time.Hour) // the running step finishes
		if s := e.Step("run", "first"); s.Phase != "succeeded" || second {
			t.Errorf("the running step %s; the next one ran: %t", s.Phase, second) // trap
		}
		for _, how := range []string{"sleep", "wait", "backoff"} {
			start = time.Now()
			r := begin(t, e, rests, how)
			e.Skip(time.Minute)
			operate(t, e, pawl.Operation{Op: client.OpCancelGracefully})
			_, err = result(t, e, r)
			isErr(t, err, pawl.ErrCancelled)
			e.WantPhase("run", "cancelled")
			took(t, start, time.Minute)
		}
	}, w, rests)
}

// zartAdminRetry checks that a failed step and a timed-out one get all their time and attempts again. So does their
// run.
func zartAdminRetry(t *testing.T) {
	for phase, tries := range map[string]int{"failed": 2, "timed_out": 1} {
		calls, broken := 0, true
		w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (int, error) {
			return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
				calls++
				switch {
				case broken && phase == "timed_out":
					return 0, idle(ctx, 24*time.Hour)
				case broken:
					return 0, errors.New("no")
				}
				at, _ := ctx.Deadline()
				return int(time.Until(at).Round(time.Minute).Minutes()), nil
			}, pawl.Timeout("1h"), pawl.Retry("fixed(2, 1m)"))
		}, pawl.RunTimeout("2h"))
		goEnv(t, func(t *testing.T, e goProgram) {
			r := begin(t, e, w, nothing{})
			_, err := result(t, e, r)
			if err == nil || calls != tries || e.Step("run", "s").Phase != client.Phase(phase) {
				t.Fatalf("%s: %v, %d calls", phase, err, calls)
			}
			e.Skip(5 * time.Hour)
			broken = false
			operate(t, e, pawl.Operation{Op: client.OpRetryStep, Step: "s", Actor: "ann"})
			if got, err := result(t, e, r); err != nil || got != 60 {
				t.Errorf("%s: the retried step had %d minutes, want the whole hour; %v", phase, got, err)
			}
			e.WantAttempts("run", "s", 1) // a fresh budget
		}, w)
	}
}

func zartFreshDeadlines(t *testing.T) {
	zartRestart(t)
	zartPause(t)
}

// zartRestart checks that a restart repeats all steps. A rerun repeats the named steps and those that had not
// succeeded.
func zartRestart(t *testing.T) {
	calls := map[string]int{}
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
		for _, name := range []string{"a", "b", "c", "fails"} {
			err := pawl.Do(ctx, name, func(context.Context) error {
				if calls[name]++; name == "fails" {
					return errors.New("no")
				}
				return nil
			}, pawl.Timeout("1h"))
			if err != nil && name != "fails" {
				return "", err
			}
		}
		return pawl.Event[string]("go").Wait(ctx, pawl.Within("2h"))
	}, pawl.RunTimeout("1d"))
	goEnv(t, func(t *testing.T, e goProgram) {
		again := func(id string, want string, request client.RestartRequest) {
			t.Helper()
			if len(request.Steps) > 0 || request.From != "" {
				_, err := goClient(t, e).RestartRun(t.Context(), id, request)
				isErr(t, err, pawl.ErrConflict) // trap: a run that goes on is not rerun beside itself
			}
			send := func() {
				isErr(t, pawl.Event[string]("go").Send(t.Context(), goClient(t, e), "run", "on"), nil)
			}
			send()
			if _, err := pawl.RunOf[string](e, id).Result(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.Skip(6 * time.Hour)
			id, err := goClient(t, e).RestartRun(t.Context(), id, request)
			if err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Second)
			d, _ := goClient(t, e).DescribeRun(t.Context(), id)
			if left := time.Until(d.Deadline); left < 23*time.Hour {
				t.Errorf("the new run has %s", left)
			}
			send()
			if got, err := pawl.RunOf[string](e, id).Result(t.Context()); err != nil || got != "on" {
				t.Errorf("%q, %v", got, err)
			}
			if fmt.Sprint(calls) != want {
				t.Errorf("calls: %v, want %s", calls, want)
			}
		}
		again(begin(t, e, w, nothing{}).ID, "map[a:1 b:2 c:1 fails:2]",
			client.RestartRequest{Steps: []string{"b", "go"}})
		clear(calls)
		again(begin(t, e, w, nothing{}).ID, "map[a:2 b:2 c:2 fails:2]", client.RestartRequest{})
	}, w)
}

// zartPause checks that while a run is paused, nothing starts and the clocks of its steps stand still. Afterwards the
// steps have their whole time again.
func zartPause(t *testing.T) {
	var budgets []time.Duration
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (string, error) {
		err := pawl.Do(ctx, "s", func(ctx context.Context) error {
			at, _ := ctx.Deadline()
			if budgets = append(budgets, time.Until(at).Round(time.Second)); len(budgets) == 1 {
				return errors.New("no")
			}
			return nil
		}, pawl.Timeout("1h"), pawl.Retry("fixed(3, 30m)"))
		if err != nil {
			return "", err
		}
		return pawl.Event[string]("go").Wait(ctx, pawl.Within("2h"))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		pause := func() {
			e.Skip(10 * time.Minute)
			operate(t, e, pawl.Operation{Op: client.OpPause})
			e.Skip(5 * time.Hour)
			e.WantPhase("run", "paused")
			e.WantAttempts("run", "s", len(budgets))
			operate(t, e, pawl.Operation{Op: client.OpResume})
		}
		r := begin(t, e, w, nothing{})
		pause() // while the step backs off
		pause() // while the run waits
		if want := "[1h0m0s 1h0m0s]"; fmt.Sprint(budgets) != want {
			t.Errorf("the attempts had %s, want %s", budgets, want)
		}
		if got := time.Until(e.Step("run", "go").Next); got != 2*time.Hour {
			t.Errorf("after the pause the wait has %s, want 2h", got)
		}
		isErr(t, pawl.Event[string]("go").Send(t.Context(), goClient(t, e), r.ID, "on"), nil)
		if got, err := result(t, e, r); err != nil || got != "on" {
			t.Errorf("%q, %v", got, err)
		}
	}, w)
}
