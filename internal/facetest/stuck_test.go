package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	historyfile "github.com/pawl-dev/pawl/internal/history"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// payment is a workflow in three states of its code: as it was, changed so that open runs cannot go on, and not there.
type payment struct {
	calls   []int // attempt numbers with which the function was called
	pending bool  // the function does not return
	opts    []pawl.StepOption
	hooks   int
}

func (p *payment) charge(ctx context.Context) (string, error) {
	n := pawl.Attempt(ctx).Number
	p.calls = append(p.calls, n)
	if p.pending {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if n == 1 {
		return "", errors.New("the bank is closed")
	}
	return fmt.Sprint("paid at attempt ", n), nil
}

func (p *payment) define(changed bool, opts ...pawl.Option) *pawl.Workflow[none, string] {
	opts = append(opts, pawl.OnFailure(func(context.Context, none, error) error {
		p.hooks++
		return nil
	}))
	return pawl.Define("payment", func(ctx pawl.Context, _ none) (string, error) {
		if changed {
			if err := pawl.Do(ctx, "reserve", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
		}
		return pawl.Step(ctx, "charge", p.charge, p.opts...)
	}, opts...)
}

// begun counts the attempts of the first step that history says have started.
func begun(t *testing.T, e *pawltest.Env, id string) (n int) {
	t.Helper()
	history, err := e.History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := historyfile.Read(history)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		for _, rec := range entry.Records {
			if started, ok := rec.(core.AttemptStarted); ok && started.Step == 0 {
				n++
			}
		}
	}
	return n
}

// TestAttemptsWaitForTheBody checks that a step's attempts do not begin while the code of its body cannot come to it.
func TestAttemptsWaitForTheBody(t *testing.T) {
	retry := pawl.Retry("fixed(3, 1h)")
	for name, c := range map[string]struct {
		opts    []pawl.StepOption
		pending bool // the first attempt runs when the code changes
		want    string
		calls   string
	}{
		"backing off": {[]pawl.StepOption{retry, pawl.AttemptTimeout("1m")}, false, "paid at attempt 2", "[1 2]"},
		"heartbeat": {
			[]pawl.StepOption{retry, pawl.HeartbeatTimeout("10s")},
			false,
			"paid at attempt 2", "[1 2]",
		},
		"running": {[]pawl.StepOption{retry, pawl.AttemptTimeout("1m")}, true, "paid at attempt 2", "[1 1 2]"},
		"stored deadline": {
			[]pawl.StepOption{retry, pawl.Timeout("5h")},
			false,
			`step "charge" timed out (scheduleToClose) after 2 attempts: the bank is closed`, "[1]",
		},
	} {
		for _, gone := range []bool{false, true} {
			p := &payment{opts: c.opts, pending: c.pending}
			v1 := p.define(false)
			pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
				r := started(t, e, v1, "p", none{})
				e.Settle()
				other := []pawl.Definition{p.define(true)}
				if gone {
					other = []pawl.Definition{}
				}
				for range 7 { // more crashes than lost attempts stop a step
					e.Crash(other...)
					e.Skip(2 * time.Hour)
				}
				if e.Problem(r.ID) == nil {
					t.Error("there is no problem")
				}
				p.pending = false
				e.Restart(p.define(false))
				got, err := reopened(e, r).Result(t.Context())
				if err != nil {
					got = errors.Unwrap(err).Error()
				}
				if got != c.want || fmt.Sprint(p.calls) != c.calls {
					t.Errorf("%s, gone %t: %s with the calls %v, want %s with %s", name, gone,
						got, p.calls, c.want, c.calls)
				}
				if n := begun(t, e, r.ID); n != len(p.calls) {
					t.Errorf("%s, gone %t: %d attempts have started, the function was called %d times",
						name, gone, n, len(p.calls))
				}
			}, v1)
		}
	}
}

// TestRunsEndWithTheirWorkflow checks that the end of a run whose workflow is not registered waits for the workflow,
// since it alone knows its hooks and its retries.
func TestRunsEndWithTheirWorkflow(t *testing.T) {
	const noOp = client.Op("")
	for name, c := range map[string]struct {
		op    client.Op // none: it comes to its limit
		phase client.Phase
		hooks int
	}{
		"limit":     {noOp, "succeeded", 1}, // the run's retry succeeds
		"cancel":    {client.OpCancelGracefully, "cancelled", 0},
		"terminate": {client.OpTerminate, "terminated", 0},
	} {
		p := &payment{opts: []pawl.StepOption{pawl.Retry("fixed(99, 2h)")}}
		w := p.define(false, pawl.RunTimeout("1d"), pawl.RunRetry("fixed(2, 1s)"))
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r := started(t, e, w, "p", none{})
			e.Skip(time.Hour)
			e.Crash([]pawl.Definition{}...)
			e.Crash([]pawl.Definition{}...)
			if c.op != noOp {
				must(t, e.Operate(t.Context(), "p", pawl.Operation{Op: c.op}))
			}
			e.Skip(48 * time.Hour)
			e.Crash([]pawl.Definition{}...)
			must(t, e.Register(w))
			out, err := e.AwaitRun(t.Context(), r.ID)
			if err != nil || out.Phase != c.phase || p.hooks != c.hooks {
				t.Errorf("%s: %s with %d hooks, %v; want %s with %d", name, out.Phase, p.hooks, err, c.phase, c.hooks)
			}
		}, w)
	}
}

// TestCancelBeforeAnAttemptBegins checks a run that is cancelled while the start of an attempt is on its way to the
// disk. Its body has idled meanwhile and was unwound; it is not called again, so that it never comes to the attempt's
// function. The run ends nevertheless.
func TestCancelBeforeAnAttemptBegins(t *testing.T) {
	holds := pawl.Define("holds", func(ctx pawl.Context, _ none) (string, error) {
		return "", pawl.Do(ctx, "slot", func(ctx context.Context) error { return wait(ctx, 20*time.Millisecond) })
	})
	p := &payment{}
	w := p.define(false)
	bubble(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), pawl.Config{
			Journal: slow{memory.New(), 2 * time.Minute}, Workflows: []pawl.Definition{holds, w}, Concurrency: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var starts sync.WaitGroup
		starts.Go(func() {
			if _, err := holds.Start(t.Context(), e, "", none{}); err != nil {
				t.Error(err)
			}
		})
		<-time.After(50 * time.Millisecond)
		r, err := w.Start(t.Context(), e, "", none{}) // its body waits from 0.05s on
		if err != nil {
			t.Fatal(err)
		}
		starts.Wait()
		// The slot is free at 4m, and the attempt comes to its worker at 6m. The body is unwound at 5m.
		<-time.After(90 * time.Second)
		must(t, e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpCancelGracefully}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := r.Result(ctx); !errors.Is(err, pawl.ErrCancelled) || len(p.calls) != 0 {
			t.Errorf("got %v after the calls %v", err, p.calls)
		}
	})
}

// slow is a journal whose appends take a while.
type slow struct {
	*memory.Journal
	time.Duration
}

func (s slow) Append(ctx context.Context, b *journal.Batch) error {
	if err := wait(ctx, s.Duration); err != nil {
		return err
	}
	return s.Journal.Append(ctx, b)
}

// TestCrashesStopOnlyWhoBegan checks that a step with which the process dies again and again is stopped: two times are
// free, two more while it runs in a group of suspects as well, five more while it runs alone are not. One whose
// attempts were only about to begin is not.
func TestCrashesStopOnlyWhoBegan(t *testing.T) {
	for name, c := range map[string]struct {
		life  time.Duration // life of the process; its start takes a second or two until something is durable
		want  string
		calls int
	}{
		"begins":   {time.Minute, "worker lost", 9},
		"about to": {1500 * time.Millisecond, "done", 2},
	} {
		calls := 0
		w := pawl.Define("doomed", func(ctx pawl.Context, _ none) (string, error) {
			out, err := pawl.Step(ctx, "s", func(ctx context.Context) (string, error) {
				calls++
				return "done", wait(ctx, 2*time.Minute)
			})
			if errors.Is(err, pawl.ErrWorkerLost) &&
				strings.Contains(err.Error(), "its process died in attempt after attempt") {
				return "worker lost", nil
			}
			return out, err
		})
		synctest.Test(t, func(t *testing.T) {
			j := memory.New()
			open := func() *pawl.Engine {
				e, err := pawl.Open(t.Context(), pawl.Config{
					Journal: slow{j, time.Second}, Workflows: []pawl.Definition{w},
				})
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			e := open()
			r := started(t, e, w, "d", none{})
			<-time.After(time.Minute) // the first attempt has begun
			for crashes := range 12 {
				j = j.Reopen() // as it was when the process died
				_ = e.Close()
				e = open()
				<-time.After(c.life)
				want := map[int]string{
					1: "it is a suspect: its last 2 attempts were lost with their worker, so it runs beside at most " +
						"15 other suspects; 0 of these losses count, 5 stop it",
					5: "it is a suspect: its last 6 attempts were lost with their worker, so it runs apart from " +
						"other suspects; 2 of these losses count, 5 stop it",
				}[crashes]
				if want != "" && name == "begins" {
					if x, err := e.Explain(t.Context(), r.ID); err != nil || x.Steps[0].Why != want {
						t.Errorf("%+v, %v; want %q", x.Steps, err, want)
					}
				}
			}
			out, err := pawl.RunOf[string](e, r.ID).Result(t.Context())
			if err != nil || out != c.want || calls != c.calls {
				t.Errorf("%s: %s, %v after %d calls, want %s after %d", name, out, err, calls, c.want, c.calls)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitingForWhatCannotGoOn checks that everybody who waits in vain for a run is told why, and why its body did
// not come as far as before.
func TestWaitingForWhatCannotGoOn(t *testing.T) {
	before := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		if _, err := pawl.Step(ctx, "s", func(context.Context) (string, error) { return "seven", nil }); err != nil {
			return 0, err
		}
		return 1, pawl.Sleep(ctx, "rest", "1h")
	})
	after := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		if _, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 7, nil }); err != nil {
			return 0, err
		}
		return 1, pawl.Sleep(ctx, "rest", "1h")
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		e.AllowStuck()
		if _, err := before.Start(t.Context(), e, "a", none{}); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := pawl.RunOf[int](e.Engine, "a").Result(short)
		if !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "has not ended: context deadline exceeded") {
			t.Errorf("while it sleeps: %v", err)
		}
		e.Restart(after)
		e.Skip(2 * time.Hour)
		again, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = pawl.RunOf[int](e.Engine, "a").Result(again)
		var unread *pawl.UnreadableError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &unread) {
			t.Fatalf("got %v", err)
		}
		if err := e.Problem("a"); !errors.As(err, &unread) {
			t.Errorf("the problem of the workflow id is %v", err)
		}
		if unread.Value != `the result of step "s"` || unread.Type != "int" || unread.Err == nil ||
			strings.Contains(unread.Error(), "the code has changed") {
			t.Errorf("got %v", unread)
		}
	}, before)
}

// TestInputThatCannotBeRead checks that a run whose input the code of today cannot read waits for code that can, even
// if it has not begun.
func TestInputThatCannotBeRead(t *testing.T) {
	define := func(fn func(ctx pawl.Context) error) pawl.Definition {
		return pawl.Define("w", func(ctx pawl.Context, in string) (string, error) { return in, fn(ctx) })
	}
	before := define(func(ctx pawl.Context) error { return pawl.Sleep(ctx, "rest", "1h") })
	type order struct{ Goods []string }
	after := pawl.Define("w", func(pawl.Context, order) (string, error) { return "never", nil })
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for id, delay := range map[string]time.Duration{"later": time.Hour, "begun": 0} {
			req := client.StartRequest{Workflow: "w", ID: id, Input: []byte(`"tea"`)}
			if delay > 0 {
				req.At = time.Now().Add(delay)
			}
			if _, err := e.StartRun(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		e.Restart(after)
		e.Skip(3 * time.Hour)
		for _, id := range []string{"later", "begun"} {
			var unread *pawl.UnreadableError
			err := e.Problem(id)
			if !errors.As(err, &unread) || unread.Value != `the input of workflow "w"` ||
				unread.Type != "facetest.order" || !strings.Contains(fmt.Sprint(err), "cannot unmarshal string") {
				t.Errorf("%s: the problem is %v", id, err)
			}
		}
		e.Restart(before)
		e.Skip(3 * time.Hour)
		for _, id := range []string{"later", "begun"} {
			if got, err := pawl.RunOf[string](e, id).Result(t.Context()); err != nil || got != "tea" {
				t.Errorf("%s: %q, %v", id, got, err)
			}
		}
	}, before)
}
