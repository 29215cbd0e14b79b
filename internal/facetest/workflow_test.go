package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestSteps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := pawl.Define("sum", func(ctx pawl.Context, in []int) (int, error) {
			sum := 0
			for _, n := range in {
				got, err := pawl.Step(ctx, "add", func(context.Context) (int, error) { return sum + n, nil })
				if err != nil {
					return 0, err
				}
				sum = got
			}
			return sum, nil
		})
		got, err := run(t, open(t, nil), w, []int{1, 2, 3, 4})
		if err != nil || got != 10 {
			t.Fatalf("got %d, %v", got, err)
		}
	})
}

func TestSleepThirtyDays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := pawl.Define("nap", func(ctx pawl.Context, _ struct{}) (time.Duration, error) {
			start := pawl.Now(ctx)
			if err := pawl.Sleep(ctx, "nap", "30d"); err != nil {
				return 0, err
			}
			return pawl.Now(ctx).Sub(start), nil
		})
		got, err := run(t, open(t, nil), w, struct{}{})
		if err != nil || got != 30*24*time.Hour {
			t.Fatalf("got %v, %v", got, err)
		}
	})
}

// TestSleepsUntilAnInstant checks that a sleep until an instant ends then, that one until an instant that has passed
// ends at once, and that one in a Select bounds what is waited for beside it. A restart in between moves nothing.
func TestSleepsUntilAnInstant(t *testing.T) {
	noon := time.Date(2000, time.January, 5, 12, 0, 0, 0, time.UTC)
	w := pawl.Define("until", func(ctx pawl.Context, _ none) ([]string, error) {
		var seen []string
		note := func(what string) { seen = append(seen, what+" "+pawl.Now(ctx).UTC().Format("2 15:04:05")) }
		if err := pawl.SleepUntil(ctx, "past", noon.AddDate(0, 0, -30)); err != nil {
			return nil, err
		}
		note("past")
		if err := pawl.SleepUntil(ctx, "noon", noon); err != nil {
			return nil, err
		}
		note("noon")
		paid := pawl.Event[string]("paid").WaitAsync(ctx)
		evening := pawl.SleepUntilAsync(ctx, "evening", noon.Add(6*time.Hour))
		if first, err := pawl.Select(ctx, paid, evening); err != nil || first != evening {
			return nil, fmt.Errorf("%v: the event was first", err)
		}
		note("evening")
		return seen, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, w, "nap", none{})
		e.Skip(2 * 24 * time.Hour)
		e.Restart()
		e.Skip(2*24*time.Hour + 13*time.Hour)
		e.Crash()
		got, err := pawl.RunOf[[]string](e, r.ID).Result(t.Context())
		want := []string{"past 1 00:00:00", "noon 5 12:00:00", "evening 5 18:00:00"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %q", err, got)
		}
	}, w)
}

// TestNow checks that the time of a body is the latest end that it has waited for, however it waited.
func TestNow(t *testing.T) {
	nap := func(ctx pawl.Context, length time.Duration) (none, error) {
		return none{}, pawl.Sleep(ctx, "nap", length)
	}
	for name, wait := range map[string]func(ctx pawl.Context, lengths ...time.Duration) error{
		"Get, the longest first": func(ctx pawl.Context, lengths ...time.Duration) error {
			long, short := pawl.SleepAsync(ctx, "long", lengths[2]), pawl.SleepAsync(ctx, "short", lengths[0])
			_, err := long.Get(ctx)
			_, other := short.Get(ctx)
			return errors.Join(err, other)
		},
		"All": func(ctx pawl.Context, lengths ...time.Duration) error {
			var futures []*pawl.Future[struct{}]
			for _, length := range lengths {
				futures = append(futures, pawl.SleepAsync(ctx, "one", length))
			}
			return second(pawl.All(ctx, futures...))
		},
		"Select": func(ctx pawl.Context, lengths ...time.Duration) error {
			_, err := pawl.Select(ctx, pawl.Event[int]("never").WaitAsync(ctx), pawl.SleepAsync(ctx, "one", lengths[2]))
			return err
		},
		"Map": func(ctx pawl.Context, lengths ...time.Duration) error {
			_, err := pawl.Map(ctx, "each", 0, lengths, nap)
			return err
		},
		"Go": func(ctx pawl.Context, lengths ...time.Duration) error {
			f := pawl.Go(ctx, "beside", func(ctx pawl.Context) (none, error) { return nap(ctx, lengths[2]) })
			_, err := f.Get(ctx)
			return err
		},
		"steps": func(ctx pawl.Context, lengths ...time.Duration) error {
			step := func(name string, length time.Duration) *pawl.Future[none] {
				return pawl.Async(ctx, name, func(ctx context.Context) (none, error) {
					return none{}, wait(ctx, length)
				})
			}
			return second(pawl.All(ctx, step("long", lengths[2]), step("short", lengths[0])))
		},
	} {
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (time.Duration, error) {
			began := pawl.Now(ctx)
			err := wait(ctx, time.Second, time.Minute, time.Hour)
			took := pawl.Now(ctx).Sub(began)
			return took, errors.Join(err, pawl.Sleep(ctx, "later", "1d"))
		})
		bubble(t, func(t *testing.T) {
			if got, err := run(t, open(t, nil, w), w, none{}); err != nil || got != time.Hour {
				t.Errorf("%s: an hour later it is %s later, %v", name, got, err)
			}
		})
	}
}

func TestRetryThenSuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := pawl.Define("flaky", func(ctx pawl.Context, _ struct{}) (int, error) {
			return pawl.Step(ctx, "flaky", func(ctx context.Context) (int, error) {
				if n := pawl.Attempt(ctx).Number; n < 3 {
					return 0, errors.New("not yet")
				}
				return pawl.Attempt(ctx).Number, nil
			}, pawl.Retry("fixed(3, 1h)"))
		})
		start := time.Now()
		got, err := run(t, open(t, nil), w, struct{}{})
		if err != nil || got != 3 || time.Since(start) < 2*time.Hour {
			t.Fatalf("got %v, %v after %s", got, err, time.Since(start))
		}
	})
}

func TestWaitEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := pawl.Define("wait", func(ctx pawl.Context, _ struct{}) (string, error) {
			return pawl.Event[string]("shipped").Wait(ctx, pawl.Within(7*24*time.Hour))
		})
		e := open(t, nil)
		r := started(t, e, w, "order-1", struct{}{})
		<-time.After(time.Hour)
		must(t, pawl.Event[string]("shipped").Send(t.Context(), e, "order-1", "by train"))
		if got, err := r.Result(t.Context()); err != nil || got != "by train" {
			t.Fatalf("got %v, %v", got, err)
		}
		if _, err := run(t, e, w, struct{}{}); !errors.Is(err, pawl.ErrDeadlineExceeded) {
			// The run failed with the step's error; what the engine decided about the step is not the run's own.
			t.Logf("run: %v", err)
		}
	})
}

type declined struct{ Code int }

func (d *declined) Error() string { return "declined" }

func init() { pawl.RegisterError[*declined]("declined") }

func TestOutcomes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen error
		w := pawl.Define("three", func(ctx pawl.Context, how string) (string, error) {
			_, err := pawl.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				if how == "slow" {
					<-ctx.Done()
				}
				return "", &declined{Code: 7}
			}, pawl.Retry(map[string]string{"once": "none", "often": "fixed(3, 1s)", "slow": "none"}[how]),
				pawl.Timeout("1m"))
			seen = err
			return "done", nil
		})
		e := open(t, nil)
		for how, is := range map[string]error{
			"once": nil, "often": pawl.ErrRetriesExhausted,
			"slow": pawl.ErrTimedOut,
		} {
			if _, err := run(t, e, w, how); err != nil {
				t.Fatal(err)
			}
			var own *declined
			if how != "slow" && (!errors.As(seen, &own) || own.Code != 7) {
				t.Errorf("%s: %v does not hold the step's own error", how, seen)
			}
			if is != nil && !errors.Is(seen, is) {
				t.Errorf("%s: %v is not %v", how, seen, is)
			}
			var se *pawl.StepError
			if !errors.As(seen, &se) || se.Own() != (is == nil) {
				t.Errorf("%s: %#v", how, seen)
			}
		}
	})
}

// TestWorkflowOfSeveralEngines checks that engines share a definition and each has a task limit of its own.
func TestWorkflowOfSeveralEngines(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (time.Duration, error) {
		<-time.After(10 * time.Second) //pawlvet:ignore it takes longer than one of the limits
		return 0, pawl.Sleep(ctx, "nap", "1s")
	})
	bubble(t, func(t *testing.T) {
		var all sync.WaitGroup
		for _, limit := range []time.Duration{3 * time.Second, time.Minute} {
			all.Go(func() {
				e, err := pawl.Open(t.Context(),
					pawl.Config{Journal: memory.New(), TaskTimeout: limit, Workflows: []pawl.Definition{w}})
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = e.Close() }()
				r, err := w.Start(t.Context(), e, "", none{})
				if err != nil {
					t.Error(err)
				}
				<-time.After(7 * time.Second)
				if err := e.Problem(r.ID); (err != nil) != (limit < 10*time.Second) {
					t.Errorf("with a limit of %s: %v", limit, err)
				}
			})
		}
		all.Wait()
		<-time.After(time.Minute) // all bodies have returned by then
	})
}

// leaving is a journal that is closed while the test reads.
type leaving struct {
	*memory.Journal
	read, closed chan struct{}
}

type readerKey struct{}

func (l leaving) History(ctx context.Context, id core.RunID) (journal.History, error) {
	if ctx.Value(readerKey{}) == nil {
		return l.Journal.History(ctx, id)
	}
	close(l.read)
	<-l.closed
	return journal.History{}, memory.ErrClosed
}

// TestReadWhileClosing checks that a caller who reads a run while the engine closes is told that it has closed.
func TestReadWhileClosing(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (none, error) { return none{}, pawl.Sleep(ctx, "nap", "1h") })
	bubble(t, func(t *testing.T) {
		j := leaving{memory.New(), make(chan struct{}), make(chan struct{})}
		e := open(t, j, w)
		r := started(t, e, w, "", none{})
		<-time.After(time.Minute) // the engine has let it go from memory, so the journal is read
		told := make(chan error)
		go func() {
			_, err := e.DescribeRun(context.WithValue(t.Context(), readerKey{}, true), r.ID)
			told <- err
		}()
		<-j.read
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		close(j.closed)
		if err := <-told; !errors.Is(err, pawl.ErrClosed) {
			t.Error(err)
		}
	})
}
