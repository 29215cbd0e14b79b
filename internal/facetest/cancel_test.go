package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// diary is what the steps of a test have done.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// does returns a step's function that writes a line.
func (d *diary) does(line string) func(context.Context) error {
	return func(context.Context) error {
		d.add(line)
		return nil
	}
}

func (d *diary) want(t *testing.T, want string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := strings.Join(d.lines, " "); got != want {
		t.Errorf("the steps did %q, want %q", got, want)
	}
}

func (d *diary) wantSorted(t *testing.T, want string) {
	t.Helper()
	d.mu.Lock()
	slices.Sort(d.lines)
	d.mu.Unlock()
	d.want(t, want)
}

// trip books a flight and a room, waits for a day, and undoes what it did when it cannot go on.
func trip(d *diary, opts ...pawl.Option) *pawl.Workflow[none, string] {
	return pawl.Define("trip", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		err := func() error {
			undo.Add(ctx, "cancel flight", d.does("-flight"))
			if err := pawl.Do(ctx, "flight", d.does("+flight")); err != nil {
				return err
			}
			undo.Add(ctx, "cancel room", d.does("-room"))
			if err := pawl.Do(ctx, "room", d.does("+room")); err != nil {
				return err
			}
			return pawl.Sleep(ctx, "the trip", 24*time.Hour)
		}()
		if err != nil {
			return "", errors.Join(err, undo.Run(ctx))
		}
		return "home", nil
	}, opts...)
}

func startTrip(t *testing.T, e *pawltest.Env, w *pawl.Workflow[none, string]) pawl.Run[string] {
	t.Helper()
	r := started(t, e, w, "", none{})
	e.Settle()
	return r
}

func TestCancelCompensates(t *testing.T) {
	var d diary
	w := trip(&d)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		must(t, r.Cancel(t.Context(), "ill"))
		err := ends(t, e, r, "cancelled", pawl.ErrCancelled)
		if err == nil || !strings.HasSuffix(err.Error(), "the run was cancelled: ill") {
			t.Errorf("%v", err)
		}
		d.want(t, "+flight +room -room -flight")
		h, err := e.History(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		pawltest.Replay(t, w, h)
	}, w)
}

func TestExpiryCompensates(t *testing.T) {
	var d diary
	w := trip(&d, pawl.RunTimeout("1h"), pawl.OnFailure(func(context.Context, none, error) error {
		d.add("hook")
		return nil
	}))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		ends(t, e, r, "timed_out", pawl.ErrTimedOut)
		d.want(t, "+flight +room -room -flight hook")
	}, w)
}

// TestCompensationSurvivesCrashes checks a process that dies while a body undoes its work. No compensation runs
// twice, and none is left out.
func TestCompensationSurvivesCrashes(t *testing.T) {
	var d diary
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		for i := range 4 {
			undo.Add(ctx, "undo", func(ctx context.Context) error {
				d.add(fmt.Sprint("-", i))
				return wait(ctx, time.Second)
			})
			if err := pawl.Do(ctx, "do", d.does(fmt.Sprint("+", i))); err != nil {
				return "", errors.Join(err, undo.Run(ctx))
			}
		}
		_, err := pawl.Event[none]("go").Wait(ctx)
		return "", errors.Join(err, pawl.Do(ctx, "too late", d.does("late")), undo.Run(ctx))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		must(t, r.Cancel(t.Context(), ""))
		e.Skip(1500 * time.Millisecond) // the third is undone, the second begins
		e.Crash()
		e.Skip(1300 * time.Millisecond)
		e.Crash()
		out, err := e.AwaitRun(t.Context(), r.ID)
		if err != nil || out.Phase != "cancelled" || out.Failure.Cause != nil {
			t.Errorf("%+v, %v", out, err)
		}
		d.want(t, "+0 +1 +2 +3 -3 -2 -2 -1 -1 -0")
	}, w)
}

// TestRunningStepFinishesBeforeTheBodyIsAsked checks that a graceful cancel keeps the results of running steps; a plain
// cancel stops them, and the body is asked when they have stopped.
func TestRunningStepFinishesBeforeTheBodyIsAsked(t *testing.T) {
	for op, want := range map[client.Op]string{
		client.OpCancelGracefully: "begins done kept-1m0s",
		client.OpCancel:           "begins stops cancelled-11s",
	} {
		var d diary
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			n, err := pawl.Step(ctx, "long", func(ctx context.Context) (string, error) {
				d.add("begins")
				select {
				case <-time.After(time.Minute):
					d.add("done")
					return "kept", nil
				case <-ctx.Done():
					<-time.After(time.Second)
					d.add("stops")
					return "", ctx.Err()
				}
			})
			if errors.Is(err, pawl.ErrCancelled) {
				n = "cancelled"
			}
			if err := pawl.Sleep(ctx, "sleep", time.Hour); !errors.Is(err, pawl.ErrCancelled) {
				t.Errorf("%v", err)
			}
			began := pawl.Info(ctx).StartedAt
			ctx = pawl.Detached(ctx)
			asked, _ := pawl.Step(ctx, "now", func(context.Context) (time.Time, error) { return time.Now(), nil })
			return "", pawl.Do(ctx, "undo", d.does(n+"-"+asked.Sub(began).String()))
		})
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := startTrip(t, e, w)
			e.Skip(10 * time.Second)
			must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: op}))
			ends(t, e, r, "cancelled", pawl.ErrCancelled)
			d.want(t, want)
		}, w)
	}
}

// TestBodyThatDoesNotLook ends as cancelled, with nothing but its own steps recorded. What it returns is kept, for
// people.
func TestBodyThatDoesNotLook(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		_ = pawl.Do(ctx, "first", func(context.Context) error { return nil })
		_ = pawl.Sleep(ctx, "sleep", time.Hour)
		_ = pawl.Do(ctx, "second", func(context.Context) error { return nil })
		return "a value", nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		must(t, r.Cancel(t.Context(), ""))
		ends(t, e, r, "cancelled", pawl.ErrCancelled)
		run, err := e.DescribeRun(t.Context(), r.ID)
		if err != nil || len(run.Steps) != 2 || string(run.Output) != `"a value"` {
			t.Errorf("%+v, %v", run, err)
		}
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}); err != nil {
			t.Errorf("it has undone nothing, and could be retried: %v", err)
		}
		e.Skip(2 * time.Hour)
		e.WantPhase(r.ID, "succeeded")
	}, w)
}

var errBank = errors.New("the bank is closed")

func init() { pawl.RegisterErrorValue("bank", errBank) }

// TestCompensationFails checks that the run ends as cancelled, and that its error tells of the failure.
func TestCompensationFails(t *testing.T) {
	var d diary
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		undo.Add(ctx, "first", d.does("first"))
		undo.Add(ctx, "second", func(context.Context) error { return errBank }, pawl.Retry("fixed(3, 1s)"))
		undo.Add(ctx, "third", d.does("third"))
		err := pawl.Sleep(ctx, "sleep", time.Hour)
		return "", errors.Join(err, undo.Run(ctx))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		must(t, r.Cancel(t.Context(), "ill"))
		err := ends(t, e, r, "cancelled", pawl.ErrCancelled)
		if !errors.Is(err, errBank) || !strings.Contains(err.Error(), "ill; after that: ") {
			t.Errorf("%v", err)
		}
		e.WantAttempts(r.ID, "second", 3)
		d.want(t, "third first")
	}, w)
}

// TestCompensationTimeout checks that a run does not wait for its body for ever, and says until when it does.
func TestCompensationTimeout(t *testing.T) {
	for _, limit := range []time.Duration{0, 5 * time.Minute} {
		var opts []pawl.Option
		want := time.Minute
		if limit != 0 {
			opts, want = append(opts, pawl.CompensationTimeout(limit)), limit
		}
		stopped := false
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			err := pawl.Sleep(ctx, "sleep", time.Hour)
			return "", errors.Join(err, pawl.Do(pawl.Detached(ctx), "undo", func(ctx context.Context) error {
				<-ctx.Done()
				stopped = true
				return ctx.Err()
			}))
		}, opts...)
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := startTrip(t, e, w)
			must(t, r.Cancel(t.Context(), ""))
			e.Settle()
			asked := time.Now()
			x, err := e.Explain(t.Context(), r.ID)
			if err != nil || x.Closing != "cancelled" || !x.CompensateUntil.Equal(asked.Add(want)) {
				t.Errorf("%+v, %v", x, err)
			}
			err = e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpCancel})
			if !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), "terminate") {
				t.Errorf("%v", err)
			}
			err = ends(t, e, r, "cancelled", pawl.ErrCancelled)
			if took := time.Since(asked); took != want || !stopped ||
				!strings.Contains(err.Error(), "the compensation was not finished within") {
				t.Errorf("after %s of %s, stopped %t: %v", took, want, stopped, err)
			}
			if s := e.Step(r.ID, "undo"); s.Phase != "timed_out" {
				t.Errorf("%+v", s)
			}
		}, w)
	}
}

// TestDetachedStepGoesOn checks that a step that was begun detached goes on when its run is cancelled, and has its
// retries.
func TestDetachedStepGoesOn(t *testing.T) {
	for _, op := range []client.Op{client.OpCancelGracefully, client.OpCancel, ""} {
		var d diary
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			side := pawl.Async(pawl.Detached(ctx), "side", func(ctx context.Context) (none, error) {
				d.add(fmt.Sprint("attempt", pawl.Attempt(ctx).Number))
				if err := wait(ctx, 20*time.Second); err != nil {
					return none{}, pawl.NonRetryable(err)
				}
				if pawl.Attempt(ctx).Number < 3 {
					return none{}, errBank
				}
				return none{}, nil
			}, pawl.Retry("fixed(3, 1s)"))
			err := pawl.Sleep(ctx, "sleep", time.Hour)
			_, also := side.Get(ctx)
			d.add(fmt.Sprint(also))
			return "", errors.Join(err, also)
		}, pawl.RunTimeout("30s"))
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := startTrip(t, e, w)
			phase, is := client.PhaseTimedOut, pawl.ErrTimedOut
			if op != "" {
				e.Skip(10 * time.Second)
				must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: op}))
				phase, is = client.PhaseCancelled, pawl.ErrCancelled
			}
			ends(t, e, r, phase, is)
			d.mu.Lock()
			d.lines = slices.Compact(d.lines)
			d.mu.Unlock()
			d.want(t, "attempt1 attempt2 attempt3 <nil>")
		}, w)
	}
}

// TestNothingIsAskedOfARunThatHasDoneNothing checks that a run that waits for its start, or whose body has not decided
// anything, ends at once.
func TestNothingIsAskedOfARunThatHasDoneNothing(t *testing.T) {
	called := false
	w := pawl.Define("w", func(pawl.Context, none) (string, error) {
		called = true
		return "", nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "", none{}, pawl.StartAt(time.Now().Add(time.Hour)))
		must(t, r.Cancel(t.Context(), ""))
		e.WantPhase(r.ID, "cancelled")
		if called {
			t.Error("the body was called")
		}
	}, w)
}

// TestParentWaitsForItsChildrensCompensation checks that a parent undoes its own work only after its children's
// compensation.
func TestParentWaitsForItsChildrensCompensation(t *testing.T) {
	var d diary
	child := pawl.Define("child", func(ctx pawl.Context, _ none) (none, error) {
		err := pawl.Sleep(ctx, "sleep", time.Hour)
		return none{}, errors.Join(err, pawl.Do(pawl.Detached(ctx), "undo", func(ctx context.Context) error {
			d.add("child")
			return wait(ctx, 30*time.Second)
		}))
	})
	parent := pawl.Define("parent", func(ctx pawl.Context, _ none) (string, error) {
		_, err := pawl.Child(ctx, "child", child, none{})
		return "", errors.Join(err, pawl.Do(pawl.Detached(ctx), "undo", func(ctx context.Context) error {
			d.add("parent")
			return wait(ctx, 45*time.Second) // it has the whole minute
		}))
	}, pawl.ExecutionTimeout("10m"))
	for _, op := range []client.Op{client.OpCancelGracefully, client.OpCancel, ""} {
		d.lines = nil
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := startTrip(t, e, parent)
			phase, is := client.PhaseTimedOut, pawl.ErrTimedOut
			if op != "" {
				phase, is = client.PhaseCancelled, pawl.ErrCancelled
				must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: op}))
			}
			err := ends(t, e, r, phase, is)
			if strings.Contains(err.Error(), "after that") {
				t.Errorf("%s: %v", op, err)
			}
			d.want(t, "child parent")
		}, parent, child)
	}
}
