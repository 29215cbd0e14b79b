package facetest

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
	"github.com/pawl-dev/pawl/pawltest"
)

func TestOperationsOnSteps(t *testing.T) {
	w := pawl.Define("ops", func(ctx pawl.Context, _ none) (string, error) {
		v, err := pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			if pawl.Attempt(ctx).Number == 2 {
				return 2, nil
			}
			return 0, errors.New("no")
		}, pawl.Retry("fixed(5, 10h)"), pawl.Timeout("30d"))
		return fmt.Sprintf("%d %v", v, err), nil
	})
	far := time.Date(2000, 6, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		op   pawl.Operation
		want string
		took time.Duration
	}{
		"complete": {pawl.Operation{Op: client.OpComplete, Output: 42}, "42 <nil>", time.Hour},
		"fail": {
			pawl.Operation{Op: client.OpFail, Err: errors.New("given up")},
			`0 step "s" failed: given up`, time.Hour,
		},
		"skip":   {pawl.Operation{Op: client.OpSkip}, "0 <nil>", time.Hour},
		"now":    {pawl.Operation{Op: client.OpNow}, "2 <nil>", time.Hour},
		"extend": {pawl.Operation{Op: client.OpExtend, To: far}, "2 <nil>", 10 * time.Hour},
		"policy": {pawl.Operation{
			Op:     client.OpSetPolicy,
			Policy: []pawl.StepOption{pawl.Timeout("3h"), pawl.Retry("none")},
		}, "timed out", 3 * time.Hour},
	} {
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			start := time.Now()
			r, _ := w.Start(t.Context(), e, "o", none{})
			e.Skip(time.Hour)
			c.op.Step, c.op.Actor, c.op.Reason = "s", "ann", "test"
			if err := e.Operate(t.Context(), "o", c.op); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "extend" && !e.Step("o", "s").Deadline.Equal(far) {
				t.Errorf("extend: the deadline is %s", e.Step("o", "s").Deadline)
			}
			got, err := r.Result(t.Context())
			if err != nil || !strings.Contains(got, c.want) || time.Since(start).Round(time.Minute) != c.took {
				t.Errorf("%s: %q, %v after %s", name, got, err, time.Since(start))
			}
		}, w)
	}
}

func TestOperationsRefused(t *testing.T) {
	w := pawl.Define("ops", func(ctx pawl.Context, _ none) (int, error) { return 0, pawl.Sleep(ctx, "s", "1h") })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, _ := w.Start(t.Context(), e, "o", none{})
		e.Settle()
		for want, op := range map[string]pawl.Operation{
			`no step "x"`: {Op: client.OpNow, Step: "x"}, "not backing off": {Op: client.OpNow, Step: "s"},
			//pawlvet:ignore the mistake that is tested
			"retry:":     {Op: client.OpSetPolicy, Step: "s", Policy: []pawl.StepOption{pawl.Retry("never")}},
			"not paused": {Op: client.OpResume},
		} {
			if err := e.Operate(t.Context(), "o", op); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Cancel(t.Context(), ""); !errors.Is(err, pawl.ErrRunClosed) {
			t.Errorf("cancel after the end: %v", err)
		}
		if err := pawl.Event[int]("late").Send(t.Context(), e, r.ID, 1); !errors.Is(err, pawl.ErrRunClosed) {
			t.Errorf("an event after the end: %v", err)
		}
		if _, err := e.DescribeRun(t.Context(), "nobody"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
	}, w)
}

func TestInterruptAndTerminate(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) { return 0, wait(ctx, 24*time.Hour) })
	})
	for op, is := range map[client.Op]error{
		client.OpCancel: pawl.ErrCancelled, client.OpTerminate: pawl.ErrTerminated,
	} {
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			start := time.Now()
			r, _ := w.Start(t.Context(), e, "w", none{})
			e.Skip(time.Hour)
			must(t, e.Operate(t.Context(), "w", pawl.Operation{Op: op, Reason: "enough"}))
			if _, err := r.Result(t.Context()); !errors.Is(err, is) || time.Since(start) > time.Hour+time.Minute {
				t.Errorf("%s: %v after %s", op, err, time.Since(start))
			}
		}, w)
	}
}

func TestAbandonedStep(t *testing.T) {
	release := make(chan struct{})
	w := pawl.Define("deaf", func(ctx pawl.Context, _ none) (string, error) {
		_, err := pawl.Step(ctx, "s", func(ctx context.Context) (string, error) {
			if pawl.Attempt(ctx).Number == 1 {
				<-release // it ignores its context
			}
			return "second", nil
		}, pawl.AttemptTimeout("1m"), pawl.Retry("fixed(2, 1s)"))
		return "went on", err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		start := time.Now()
		release = make(chan struct{})
		got, err := run(t, e.Engine, w, none{})
		if took := time.Since(start); err != nil || got != "went on" || took != 65*time.Second {
			t.Errorf("%q, %v after %s; want 1m and 5s of grace", got, err, took)
		}
		close(release)
	}, w)
}

func TestLimits(t *testing.T) {
	hang := func(ctx context.Context) (int, error) { return 0, wait(ctx, 24*time.Hour) }
	beats := func(ctx context.Context) (int, error) {
		for range 10 {
			pawl.Heartbeat[any]{}.Beat(ctx, nil)
			if err := wait(ctx, 20*time.Second); err != nil {
				return 0, err
			}
		}
		return 1, nil
	}
	for name, c := range map[string]struct {
		fn   func(context.Context) (int, error)
		opts []pawl.StepOption
		is   error
		took time.Duration
	}{
		"cancelled": {
			hang,
			[]pawl.StepOption{pawl.Timeout("1m", pawl.OnExpireCancel())},
			pawl.ErrCancelled, time.Minute,
		},
		"deadline": {hang, []pawl.StepOption{pawl.WorkTimeout(2 * time.Minute)}, pawl.ErrTimedOut, 2 * time.Minute},
		"silent": {
			hang,
			[]pawl.StepOption{pawl.HeartbeatTimeout("3m", pawl.NoRetry()), pawl.Retry("fixed(3, 1s)")},
			pawl.ErrTimedOut, 3 * time.Minute,
		},
		"active": {
			beats,
			[]pawl.StepOption{pawl.HeartbeatTimeout("30s")},
			nil,
			200 * time.Second,
		},
		"warned":  {hang, []pawl.StepOption{pawl.Timeout("4m", pawl.Warn(50))}, pawl.ErrTimedOut, 4 * time.Minute},
		"skipped": {hang, []pawl.StepOption{pawl.Retry("fixed(0, 1s)")}, nil, 0},
	} {
		var seen error
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
			_, seen = pawl.Step(ctx, "s", c.fn, c.opts...)
			return 0, nil
		})
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			start := time.Now()
			if _, err := run(t, e.Engine, w, none{}); err != nil {
				t.Fatal(name, err)
			}
			if !errors.Is(seen, c.is) || time.Since(start) != c.took {
				t.Errorf("%s: %v after %s, want %v after %s", name, seen, time.Since(start), c.is, c.took)
			}
		}, w)
	}
}

func TestParentClose(t *testing.T) {
	child := pawl.Define("child", func(ctx pawl.Context, _ string) (int, error) {
		return 0, pawl.Sleep(ctx, "s", "10h")
	})
	fates := map[string][]pawl.ChildOption{
		"cancel": nil, "terminate": {pawl.TerminateWithParent()}, "abandon": {pawl.Abandon()},
	}
	parent := pawl.Define("parent", func(ctx pawl.Context, how string) (int, error) {
		//pawlvet:ignore nobody waits for it here
		pawl.ChildAsync(ctx, "child", child, how, fates[how]...)
		return 7, pawl.Sleep(ctx, "s", "1h")
	})
	for how, want := range map[string]client.Phase{
		"cancel": client.PhaseCancelled, "terminate": client.PhaseTerminated, "abandon": client.PhaseWaiting,
	} {
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			if got, err := run(t, e.Engine, parent, how); err != nil || got != 7 {
				t.Errorf("%s: %d, %v", how, got, err)
			}
			e.Skip(time.Minute)
			runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "child"})
			if err != nil || len(runs) != 1 || runs[0].Phase != want {
				t.Errorf("%s: the child is %v, want %s; %v", how, runs, want, err)
			}
		}, parent, child)
	}
}

// TestCancelWithAnAbandonedChild checks that the parent waits for its child, and is cancelled. The child goes on.
func TestCancelWithAnAbandonedChild(t *testing.T) {
	child := pawl.Define("child", func(ctx pawl.Context, _ none) (int, error) {
		return 0, pawl.Sleep(ctx, "s", "10h")
	})
	parent := pawl.Define("parent", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Child(ctx, "child", child, none{}, pawl.Abandon())
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, parent, "", none{})
		e.Skip(time.Minute)
		must(t, r.Cancel(t.Context(), ""))
		e.Skip(time.Minute)
		for workflow, want := range map[string]client.Phase{
			"parent": client.PhaseCancelled, "child": client.PhaseWaiting,
		} {
			runs, err := e.ListRuns(t.Context(), client.Query{Workflow: workflow})
			if err != nil || len(runs) != 1 || runs[0].Phase != want {
				t.Errorf("the %s is %v, want %s; %v", workflow, runs, want, err)
			}
		}
	}, parent, child)
}

// notJSON is a codec that breaks the rule.
type notJSON struct{ pawl.JSON }

func (notJSON) Encode(context.Context, *pawl.Payload, any) ([]byte, error) {
	return []byte("<xml/>"), nil
}

func TestCodecMustMakeJSON(t *testing.T) {
	w := pawl.Define("w", func(pawl.Context, int) (int, error) { return 1, nil })
	pawltest.RunWith(t, pawl.Config{Codec: notJSON{}}, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "", 1); err == nil || !strings.Contains(err.Error(), "made no JSON") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWideMap(t *testing.T) {
	const n = 5000
	w := pawl.Define("wide", func(ctx pawl.Context, _ none) (int, error) {
		out, err := pawl.Map(ctx, "m", 0, make([]int, n), func(ctx pawl.Context, _ int) (int, error) {
			return pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		})
		return len(out), err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if got, err := run(t, e.Engine, w, none{}); err != nil || got != n {
			t.Errorf("%d, %v", got, err)
		}
	}, w)
}

// TestKeysGoWithTheirRuns checks that a key is known while the last run of its chain is kept, and no longer.
func TestKeysGoWithTheirRuns(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, n int) (int, error) {
		if err := pawl.Sleep(ctx, "s", "10h"); err != nil || n == 3 {
			return n, err
		}
		return n, pawl.ContinueAsNew(ctx, n+1)
	})
	cfg := pawl.Config{Retention: 5 * time.Hour, Workflows: []pawl.Definition{w}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		start := func() pawl.Run[int] {
			t.Helper()
			r := started(t, e, w, "", 1, pawl.IdempotencyKey("k"))
			return r
		}
		first := start()
		e.Skip(25 * time.Hour) // the chain's third run sleeps
		// The first run's id is the workflow id of those that follow.
		if d, err := e.DescribeRun(t.Context(), first.ID); err != nil || d.ID == first.ID || d.WorkflowID != first.ID {
			t.Errorf("the first run is kept: %+v, %v", d.Summary, err)
		}
		if r := start(); !r.Existing {
			t.Error("a second chain while the first one is open")
		}
		if got, err := first.Result(t.Context()); err != nil || got != 3 { // the chain ends after five hours
			t.Errorf("the handle of the first run: %d, %v", got, err)
		}
		e.Skip(3 * time.Hour)
		if r := start(); !r.Existing {
			t.Error("a second chain while the first one is kept")
		} else if got, err := r.Result(t.Context()); err != nil || got != 3 {
			t.Errorf("%d, %v", got, err)
		}
		e.Skip(8 * time.Hour)
		if r := start(); r.Existing {
			t.Error("a key outlives its run, unlike the documentation says")
		}
	})
}

// TestNoTimeLeftTimesTheRunOut checks that a run whose body gives up because no attempt fits into its time ends as its
// deadline would end it.
func TestNoTimeLeftTimesTheRunOut(t *testing.T) {
	var cause error
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		v, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 0, &declined{Code: 7} },
			pawl.Retry("fixed(5, 2h)"))
		if err != nil {
			return 0, fmt.Errorf("order: %w", err)
		}
		return v, nil
	}, pawl.RunTimeout("1h"), pawl.OnFailure(func(_ context.Context, _ none, err error) error {
		cause = err
		return nil
	}))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		start := time.Now()
		_, err := run(t, e.Engine, w, none{})
		for _, err := range []error{err, cause} {
			var own *declined
			if !errors.Is(err, pawl.ErrTimedOut) || !errors.As(err, &own) || own.Code != 7 {
				t.Errorf("%v", err)
			}
		}
		if time.Since(start) > time.Minute {
			t.Errorf("it took %s to see that 2h do not fit into 1h", time.Since(start))
		}
	}, w)
}

// TestRunErrors checks that the error of a run wraps the error of its body for everybody who waits: the body's own
// error, or the engine's decision about a step, also of a child run.
func TestRunErrors(t *testing.T) {
	fail := func(context.Context) (int, error) { return 0, &declined{Code: 7} }
	hang := func(ctx context.Context) (int, error) { return 0, wait(ctx, 24*time.Hour) }
	child := pawl.Define("child", func(ctx pawl.Context, _ none) (int, error) { return 0, pawl.Sleep(ctx, "s", "1d") },
		pawl.RunTimeout("1h"))
	all := []error{
		pawl.ErrTimedOut, pawl.ErrRetriesExhausted, pawl.ErrDeadlineExceeded, pawl.ErrCancelled,
		pawl.ErrWorkerLost, pawl.ErrTerminated,
	}
	for name, c := range map[string]struct {
		body func(ctx pawl.Context) (int, error)
		is   error
		own  bool
	}{
		"own":    {func(ctx pawl.Context) (int, error) { return pawl.Step(ctx, "s", fail) }, nil, true},
		"body's": {func(pawl.Context) (int, error) { return fail(t.Context()) }, nil, true},
		"exhausted": {func(ctx pawl.Context) (int, error) {
			return pawl.Step(ctx, "s", fail, pawl.Retry("fixed(2, 1s)"))
		}, pawl.ErrRetriesExhausted, true},
		"late": {
			func(ctx pawl.Context) (int, error) { return pawl.Step(ctx, "s", hang, pawl.Timeout("1s")) },
			pawl.ErrTimedOut, false,
		},
		"no event": {
			func(ctx pawl.Context) (int, error) { return pawl.Event[int]("e").Wait(ctx, pawl.Within("1s")) },
			pawl.ErrDeadlineExceeded, false,
		},
		"cancelled": {func(ctx pawl.Context) (int, error) {
			return pawl.Step(ctx, "s", hang, pawl.Timeout("1s", pawl.OnExpireCancel()))
		}, pawl.ErrCancelled, false},
		"child": {
			func(ctx pawl.Context) (int, error) { return pawl.Child(ctx, "c", child, none{}) }, pawl.ErrTimedOut,
			false,
		},
	} {
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
			v, err := c.body(ctx)
			if err != nil {
				return 0, fmt.Errorf("order 7: %w", err)
			}
			return v, nil
		})
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			_, err := run(t, e.Engine, w, none{})
			var own *declined
			if !strings.Contains(fmt.Sprint(err), "order 7: ") || errors.As(err, &own) != c.own {
				t.Errorf("%s: %v", name, err)
			}
			for _, kind := range all {
				if errors.Is(err, kind) != (kind == c.is) {
					t.Errorf("%s: errors.Is(%v, %v) is %t", name, err, kind, errors.Is(err, kind))
				}
			}
		}, w, child)
	}
}

// TestTheReasonOfACancelStays checks that everybody who waits for a cancelled run hears the reason, also where the
// process died in between.
func TestTheReasonOfACancelStays(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		return 1, pawl.Do(ctx, "work", func(ctx context.Context) error { return wait(ctx, time.Hour) })
	})
	for _, op := range []client.Op{client.OpCancelGracefully, client.OpCancel, client.OpTerminate} {
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r, err := w.Start(t.Context(), e, "", none{})
			if err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Minute)
			must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: op, Reason: "changed my mind"}))
			e.Crash()
			_, err = pawl.RunOf[int](e, r.ID).Result(t.Context())
			if err == nil || !strings.HasSuffix(err.Error(), "ed: changed my mind") {
				t.Errorf("%s: %v", op, err)
			}
		}, w)
	}
}

// TestPriority checks that the waiting attempt with the higher priority begins first.
func TestPriority(t *testing.T) {
	var begun []string
	step := func(ctx pawl.Context, name string, opts ...pawl.StepOption) *pawl.Future[int] {
		return pawl.Async(ctx, name, func(ctx context.Context) (int, error) {
			begun = append(begun, name) // one slot: one at a time
			return 0, wait(ctx, time.Minute)
		}, opts...)
	}
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		first := step(ctx, "first")
		if err := pawl.Sleep(ctx, "until the slot is taken", "1s"); err != nil {
			return none{}, err
		}
		return none{}, second(pawl.All(ctx, first, step(ctx, "low", pawl.Priority(-1)), step(ctx, "plain"),
			step(ctx, "high", pawl.Priority(1))))
	})
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Concurrency: 1}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{})
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"first", "high", "plain", "low"}; !slices.Equal(begun, want) {
			t.Errorf("the steps began in the order %q, want %q", begun, want)
		}
	})
}

// TestUnknownOperation checks that an operation that does not exist changes nothing, and neither does one that was left
// out.
func TestUnknownOperation(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) {
		return none{}, pawl.Sleep(ctx, "a day", "1d")
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "w", none{}); err != nil {
			t.Fatal(err)
		}
		for _, op := range []client.Op{"", "stop"} {
			err := e.Operate(t.Context(), "w", pawl.Operation{Op: op})
			if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "_gracefully, cancel, terminate") {
				t.Errorf("operation %q: %v", op, err)
			}
		}
		e.Skip(time.Hour)
		e.WantPhase("w", "waiting")
	}, w)
}
