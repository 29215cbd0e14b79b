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
	"github.com/pawl-dev/pawl/policy"
)

// recorder notes what an observer is told.
type recorder struct {
	mu    sync.Mutex
	began time.Time
	seen  []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, fmt.Sprintf(format, args...))
}

// since returns the time from the beginning to an instant; - stands for none.
func (r *recorder) since(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Sub(r.began).String()
}

// kindOf returns the kind of a failure and its limit, without its message.
func kindOf(f *policy.Failure) string {
	switch {
	case f == nil:
		return "none"
	case f.Limit != policy.LimitNone:
		return f.Kind.String() + " " + f.Limit.String()
	default:
		return f.Kind.String()
	}
}

func (r *recorder) observer() pawl.Observer {
	return pawl.Observer{
		RunStarted: func(o client.RunObservation) {
			r.note("%s started %s, tenant %s", o.Workflow, r.since(o.StartedAt), o.Headers["tenant"])
		},
		RunEnded: func(o client.RunObservation) {
			r.note("%s %s %s to %s, %s", o.Workflow, o.Phase, r.since(o.StartedAt), r.since(o.EndedAt),
				kindOf(o.Failure))
		},
		AttemptStarted: func(a client.AttemptObservation) {
			r.note("%s %d ready %s started %s, child %t", a.Step, a.Number, r.since(a.ReadyAt),
				r.since(a.StartedAt), a.Child)
		},
		AttemptHeld: func(a client.AttemptObservation) {
			r.note("%s %d held %q by %q", a.Workflow, a.Number, a.Held, a.HeldBy)
		},
		AttemptEnded: func(a client.AttemptObservation) {
			r.note("%s %d started %s ended %s, retry %t at %s, %s", a.Step, a.Number, r.since(a.StartedAt),
				r.since(a.EndedAt), a.Retry, r.since(a.NextAt), kindOf(a.Failure))
		},
		BodyStopped: func(o client.RunObservation) { r.note("stopped %t", o.Err != nil) },
	}
}

func (r *recorder) check(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.seen, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(r.seen, "\n"), strings.Join(want, "\n"))
	}
}

// TestObserver checks that the observer hears of runs and attempts with their instants, whatever ends them: their own
// return, a limit, or a crash of the program.
func TestObserver(t *testing.T) {
	var r recorder
	child := pawl.Define("child", func(pawl.Context, int) (int, error) { return 0, errors.New("it is late") })
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		_, _ = pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			_ = wait(ctx, time.Second)
			if pawl.Attempt(ctx).Number == 1 {
				return 0, errors.New("no")
			}
			return 1, nil
		}, pawl.Retry("fixed(2, 1s)"))
		_, _ = pawl.Step(ctx, "t", func(ctx context.Context) (int, error) { return 0, wait(ctx, time.Hour) },
			pawl.AttemptTimeout("10s"))
		_ = pawl.Do(ctx, "long", func(ctx context.Context) error { return wait(ctx, time.Minute) })
		return pawl.Child(ctx, "c", child, 1)
	})
	cfg := pawl.Config{Observer: r.observer(), Workflows: []pawl.Definition{w, child}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		r.began = time.Now()
		began := time.Now()
		run, err := w.Start(t.Context(), e, "", none{}, pawl.StartAt(began.Add(time.Second)),
			pawl.Headers(map[string]string{"tenant": "acme"}))
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(20 * time.Second) // long has begun
		e.Crash()
		if _, err := reopened(e, run).Result(t.Context()); err == nil {
			t.Error("the run succeeded")
		}
		r.check(t,
			"w started 1s, tenant acme",
			"s 1 ready 1s started 1s, child false",
			"s 1 started 1s ended 2s, retry true at 3s, error",
			"s 2 ready 3s started 3s, child false",
			"s 2 started 3s ended 4s, retry false at -, none",
			"t 1 ready 4s started 4s, child false",
			"t 1 started 4s ended 14s, retry false at -, timeout startToClose",
			"long 1 ready 14s started 14s, child false",
			"long 1 started 14s ended 20s, retry true at 20s, lost",
			"long 2 ready 20s started 20s, child false",
			"long 2 started 20s ended 1m20s, retry false at -, none",
			"c 1 ready 1m20s started 1m20s, child true",
			"child started 1m20s, tenant acme",
			"child failed 1m20s to 1m20s, error",
			"c 1 started 1m20s ended 1m20s, retry false at -, error",
			"w failed 1s to 1m20s, error",
		)
	})
}

// TestObserverOfHeldAttempts checks that an observer hears why an attempt is held, and when that is over.
func TestObserverOfHeldAttempts(t *testing.T) {
	var r recorder
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		_, err := pawl.Map(ctx, "m", 0, []int{1, 2}, func(ctx pawl.Context, n int) (int, error) {
			return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) { return n, wait(ctx, time.Second) },
				pawl.Service("bank"))
		})
		return 0, err
	})
	o := pawl.Observer{AttemptHeld: r.observer().AttemptHeld}
	cfg := pawl.Config{
		Observer: o, Workflows: []pawl.Definition{w},
		Services: map[string]policy.QueueLimits{"bank": {Concurrency: 1}},
	}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		if _, err := run(t, e.Engine, w, none{}); err != nil {
			t.Fatal(err)
		}
		r.check(t, `w 1 held "concurrency" by "service bank"`)
	})
}

// TestObserverOfTimersAndCommits checks that an observer hears how late a timer was, and of each batch.
func TestObserverOfTimersAndCommits(t *testing.T) {
	var mu sync.Mutex
	var late []time.Duration
	entries := 0
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) { return 0, pawl.Sleep(ctx, "rest", "1h") })
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Observer: pawl.Observer{
		TimerFired: func(due, fired time.Time) {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, fired.Sub(due))
		},
		Committed: func(took time.Duration, n, bytes int) {
			mu.Lock()
			defer mu.Unlock()
			if entries += n; took < 0 || n > 0 && bytes == 0 {
				t.Errorf("a batch of %d entries and %d bytes took %s", n, bytes, took)
			}
		},
	}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		if _, err := run(t, e.Engine, w, none{}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(late) != "[0s]" || entries < 3 {
			t.Errorf("timers were late by %v, %d entries were appended", late, entries)
		}
	})
}

// TestObserverOfRunsInAQueue checks that a run that waits for its queue begins once, when the queue admits it. One that
// is retried waits again, and has begun before.
func TestObserverOfRunsInAQueue(t *testing.T) {
	var r recorder
	tries := 0
	w := pawl.Define("bill", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			tries++
			if tries == 2 {
				return 0, pawl.NonRetryable(errors.New("no"))
			}
			return 1, wait(ctx, time.Second)
		})
	}, pawl.RunQueue("bills", 0))
	cfg := queueConfig(policy.QueueLimits{Concurrency: 1}, w)
	o := r.observer()
	cfg.Observer = pawl.Observer{RunStarted: o.RunStarted, RunEnded: o.RunEnded}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		r.began = time.Now()
		first := started(t, e, w, "first", none{})
		e.Skip(time.Microsecond) // either of two runs of one instant may be the first
		second := started(t, e, w, "second", none{})
		if _, err := first.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Result(t.Context()); err == nil {
			t.Error("the second run succeeded")
		}
		e.Skip(time.Second)
		must(t, e.Operate(t.Context(), second.ID, pawl.Operation{Op: client.OpRetryRun}))
		if _, err := second.Result(t.Context()); err != nil {
			t.Error(err)
		}
		r.check(t,
			"bill started 0s, tenant ",
			"bill succeeded 0s to 1s, none",
			"bill started 1s, tenant ",
			"bill failed 1s to 1s, error",
			"bill succeeded 1s to 3s, none",
		)
	})
}
