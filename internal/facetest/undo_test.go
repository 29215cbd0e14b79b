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

// partsOf returns a workflow that does eight parts at once, in branches that undo.Add and then do a step, as begin
// says, and undoes all of them an hour later.
func partsOf(
	d *diary, begin func(ctx pawl.Context, part func(ctx pawl.Context, n int) error) error,
) *pawl.Workflow[none, string] {
	return pawl.Define("parts", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		undo.Add(ctx, "undo-first", d.does("-first"))
		err := begin(ctx, func(ctx pawl.Context, n int) error {
			name := fmt.Sprint("part", n)
			undo.Add(ctx, "undo-"+name, d.does("-"+name))
			return pawl.Do(ctx, name, d.does("+"+name))
		})
		undo.Add(ctx, "undo-last", d.does("-last"))
		if err := pawl.Sleep(ctx, "an hour", time.Hour); err != nil {
			return "", err
		}
		return "", errors.Join(err, errBank, undo.Run(ctx))
	})
}

func inBranches(ctx pawl.Context, part func(ctx pawl.Context, n int) error) error {
	var all []*pawl.Future[none]
	for n := range 8 {
		all = append(all, pawl.Go(ctx, fmt.Sprint("branch", n), func(ctx pawl.Context) (none, error) {
			return none{}, part(ctx, n)
		}))
	}
	return second(pawl.All(ctx, all...))
}

func inMap(ctx pawl.Context, part func(ctx pawl.Context, n int) error) error {
	_, err := pawl.Map(ctx, "parts", 8, []int{0, 1, 2, 3, 4, 5, 6, 7}, func(ctx pawl.Context, n int) (none, error) {
		return none{}, part(ctx, n)
	})
	return err
}

// TestCompensationsOfBranches checks that what branches have added is undone, all of it, in the order of the code, also
// when the body is called again.
func TestCompensationsOfBranches(t *testing.T) {
	for name, begin := range map[string]func(pawl.Context, func(pawl.Context, int) error) error{
		"Go": inBranches, "Map": inMap,
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 40 {
				var d diary
				w := partsOf(&d, begin)
				pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
					r := startTrip(t, e, w)
					if round%2 == 0 {
						e.Restart()
					}
					_ = ends(t, e, reopened(e, r), "failed", errBank)
					want := "-last"
					for n := range slices.Backward(make([]int, 8)) {
						want += fmt.Sprint(" -part", n)
					}
					if got := strings.Join(d.lines[8:], " "); got != want+" -first" {
						t.Errorf("undone: %s", got)
					}
				}, w)
			}
		})
	}
}

// TestCompensationsOfOpenBranches checks that branches which still run are ended before anything is undone, and that
// what they have added is undone, too, in the same way after a crash at any moment.
func TestCompensationsOfOpenBranches(t *testing.T) {
	for _, crash := range []bool{false, true} {
		var d diary
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			var undo pawl.Compensations
			part := func(name string, took time.Duration) func(pawl.Context) (none, error) {
				return func(ctx pawl.Context) (none, error) {
					if err := pawl.Sleep(ctx, "before", time.Second); err != nil {
						return none{}, err
					}
					undo.Add(ctx, "undo "+name, d.does("-"+name))
					return none{}, pawl.Do(ctx, name, func(ctx context.Context) error {
						if err := wait(ctx, took); err != nil {
							_ = d.does("~" + name)(ctx)
							return err
						}
						if name == "failing" {
							return errBank
						}
						return nil
					})
				}
			}
			slow := pawl.Go(ctx, "slow", part("slow", time.Hour))
			failing := pawl.Go(ctx, "failing", part("failing", time.Minute))
			//pawlvet:ignore nobody waits for it here
			pawl.Go(ctx, "idle", func(ctx pawl.Context) (none, error) {
				return none{}, pawl.Sleep(ctx, "idle", 24*time.Hour)
			})
			_, err := failing.Get(ctx)
			err = errors.Join(err, undo.Run(ctx))
			if _, slowly := slow.Get(ctx); !errors.Is(slowly, pawl.ErrCancelled) {
				return "", fmt.Errorf("the slow part ended with %w", slowly)
			}
			return "", err
		})
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := startTrip(t, e, w)
			if crash {
				e.Skip(2 * time.Second)
				e.Restart()
			}
			_ = ends(t, e, reopened(e, r), "failed", errBank)
			undone := slices.DeleteFunc(d.lines, func(line string) bool { return !strings.HasPrefix(line, "-") })
			if got := strings.Join(undone, " "); got != "-failing -slow" {
				t.Errorf("crash %v: undone %s", crash, got)
			}
			h, err := e.History(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			pawltest.Replay(t, w, h)
		}, w)
	}
}

// TestCompensationsOfItems checks that items of a Map may undo what others have done, while they all run.
func TestCompensationsOfItems(t *testing.T) {
	var d diary
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		_, err := pawl.Map(ctx, "items", 3, []int{0, 1, 2}, func(ctx pawl.Context, n int) (none, error) {
			undo.Add(ctx, fmt.Sprint("undo ", n), d.does(fmt.Sprint("-", n)))
			if err := pawl.Sleep(ctx, "sleep", time.Duration(n)*time.Hour); err != nil {
				return none{}, err
			}
			if n == 0 {
				return none{}, nil
			}
			return none{}, undo.Run(ctx)
		})
		return "", errors.Join(err, undo.Run(ctx), errBank)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		_ = ends(t, e, r, "failed", errBank)
		d.want(t, "-2 -1 -0")
	}, w)
}

// TestCompensationMisuse checks that what cannot be added makes the run fail, with the reason.
func TestCompensationMisuse(t *testing.T) {
	var shared pawl.Compensations
	nothing := func(context.Context) error { return nil }
	for want, add := range map[string]func(ctx pawl.Context){
		"compensation \"\"": func(ctx pawl.Context) {
			new(pawl.Compensations).Add(ctx, "", func(context.Context) error { return nil })
		},
		"compensation \"none\"": func(ctx pawl.Context) { new(pawl.Compensations).Add(ctx, "none", nil) },
		"another run":           func(ctx pawl.Context) { shared.Add(ctx, "x", nothing) },
		"another goroutine": func(ctx pawl.Context) {
			var undo pawl.Compensations
			done := make(chan bool)
			go func() { //pawlvet:ignore the mistake that is tested
				defer close(done)
				undo.Add(ctx, "x", nothing)
			}()
			<-done //pawlvet:ignore the mistake that is tested
		},
	} {
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) { add(ctx); return "", nil })
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			if want == "another run" {
				if _, err := run(t, e.Engine, w, none{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := run(t, e.Engine, w, none{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q: %v", want, err)
			}
		}, w)
	}
}

// TestUnfinishedCompensation checks that a run whose compensation was not finished is found by a label, and that a
// retry goes on with what was not undone, and with nothing else.
func TestUnfinishedCompensation(t *testing.T) {
	var d diary
	open := false
	w := pawl.Define("trip", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		for _, name := range []string{"a", "b", "c"} {
			undo.Add(ctx, name, func(ctx context.Context) error {
				_ = d.does(name)(ctx)
				if name == "b" && !open {
					return errBank
				}
				return nil
			})
		}
		err := pawl.Sleep(ctx, "sleep", time.Hour)
		return "", errors.Join(err, undo.Run(ctx))
	})
	unfinished := client.Query{Labels: map[string]string{"pawl.compensation": "unfinished"}}
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		must(t, r.Cancel(t.Context(), "ill"))
		_ = ends(t, e, r, "cancelled", pawl.ErrCancelled)
		d.want(t, "c b a")
		found, err := e.ListRuns(t.Context(), unfinished)
		if err != nil || len(found) != 1 || found[0].ID != r.ID {
			t.Errorf("unfinished runs: %+v, %v", found, err)
		}
		open = true
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}))
		e.Settle()
		_ = ends(t, e, r, "cancelled", pawl.ErrCancelled)
		d.want(t, "c b a b")
		if found, err = e.ListRuns(t.Context(), unfinished); err != nil || len(found) > 0 {
			t.Errorf("unfinished runs: %+v, %v", found, err)
		}
		err = e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun})
		if !errors.Is(err, pawl.ErrConflict) || !strings.Contains(err.Error(), "undone") {
			t.Errorf("a retry would make again what was undone: %v", err)
		}
	}, w)
}

// TestCompensationOutlivesADowntime checks that the time of a compensation stands while no process has the run.
func TestCompensationOutlivesADowntime(t *testing.T) {
	var d diary
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		for _, name := range []string{"a", "b"} {
			undo.Add(ctx, "undo "+name, func(ctx context.Context) error {
				_ = d.does("begins " + name)(ctx)
				if err := wait(ctx, 15*time.Second); err != nil {
					return err
				}
				return d.does("undid " + name)(ctx)
			}, pawl.Retry("fixed(5, 1s)"))
		}
		err := pawl.Sleep(ctx, "sleep", time.Hour)
		return "", errors.Join(err, undo.Run(ctx))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		must(t, r.Cancel(t.Context(), "ill"))
		e.Skip(10 * time.Second)
		must(t, e.Close())
		<-time.After(10 * time.Minute)
		e.Reopen()
		out, err := e.AwaitRun(t.Context(), r.ID)
		if err != nil || out.Phase != "cancelled" || out.Failure.Cause != nil {
			t.Errorf("%+v, %v", out, err)
		}
		d.want(t, "begins b begins b undid b begins a undid a")
	}, w)
}

// TestHangingCompensation checks that a compensation which hangs leaves time for the others, and that a retry goes on
// with it.
func TestHangingCompensation(t *testing.T) {
	var d diary
	hangs := true
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		var undo pawl.Compensations
		undo.Add(ctx, "undo a", d.does("a"))
		undo.Add(ctx, "undo b", func(ctx context.Context) error {
			if hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			return d.does("b")(ctx)
		})
		undo.Add(ctx, "undo c", d.does("c"))
		err := pawl.Sleep(ctx, "sleep", time.Hour)
		return "", errors.Join(err, undo.Run(ctx))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := startTrip(t, e, w)
		began := time.Now()
		must(t, r.Cancel(t.Context(), "ill"))
		_ = ends(t, e, r, "cancelled", pawl.ErrCancelled)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("the run ended after %s, want half of the minute", took)
		}
		d.want(t, "c a")
		hangs = false
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}))
		e.Settle()
		_ = ends(t, e, r, "cancelled", pawl.ErrCancelled)
		d.want(t, "c a b")
	}, w)
}
