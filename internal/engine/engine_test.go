package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens an engine with workers that execute tasks by calling act.
func open(
	t *testing.T, j journal.Journal, slots int, act func(core.Task) core.Input, more ...func(*Config),
) (*Engine, *fakeWorkers) {
	t.Helper()
	c := newFakeWorkers(slots)
	c.act = act
	cfg := Config{Journal: j, Workers: c, Kinds: plans, Owner: "test"}
	for _, m := range more {
		m(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.report = e.Report
	if err := e.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, c
}

func closeEngine(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func mustStart(t *testing.T, e *Engine, p plan) core.RunID {
	t.Helper()
	s, err := e.Start(t.Context(), StartRequest{Definition: p.definition()})
	if err != nil {
		t.Fatal(err)
	}
	return s.Run
}

// TestResultAfterASleep checks that Result waits until a run that sleeps has ended. Later it returns the same again,
// also after the run has left memory.
func TestResultAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		began := time.Now()
		id := mustStart(t, e, flow("nap", task(), nap(time.Hour), task()))
		out, err := e.Result(t.Context(), id)
		if err != nil || out.Phase != core.RunSucceeded || !bytes.Equal(out.Output, []byte(`"done"`)) {
			t.Fatalf("%+v %v", out, err)
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+5*time.Millisecond {
			t.Fatalf("the run took %s, want an hour", took)
		}
		if again, err := e.Result(t.Context(), id); err != nil || again.Phase != out.Phase {
			t.Fatalf("the second Result: %+v %v", again, err)
		}
		<-time.After(time.Minute)
		if again, err := e.Result(t.Context(), id); err != nil || again.Phase != out.Phase {
			t.Fatalf("Result after the run has left memory: %+v %v", again, err)
		}
		if s := e.Stats(); s.Loaded != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// TestResultOfARunOutsideMemory checks that Result of a run that sleeps and is not in memory waits until the run has
// ended.
func TestResultOfARunOutsideMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("nap", nap(time.Hour)))
		<-time.After(time.Minute)
		if s := e.Stats(); s.Loaded != 0 {
			t.Fatalf("%+v", s)
		}
		if out, err := e.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
			t.Fatalf("%+v %v", out, err)
		}
		_, err := e.Result(t.Context(), core.RunID{7})
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("Result of an unknown run: %v", err)
		}
	})
}

// TestResultStopsWithItsContext checks that Result returns when its context ends.
func TestResultStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("nap", nap(time.Hour)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Result(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

// TestIdleEngineDoesNothing checks that while all runs sleep, the engine does not call the journal.
func TestIdleEngineDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var calls atomic.Int64
		j.Fault = func(memory.Op, *journal.Batch) error { calls.Add(1); return nil }
		e, _ := open(t, j, -1, succeed)
		defer closeEngine(t, e)
		for range 10 {
			mustStart(t, e, flow("nap", nap(240*time.Hour)))
		}
		<-time.After(time.Minute)
		before := calls.Load()
		<-time.After(100 * time.Hour)
		if n := calls.Load() - before; n > 0 {
			t.Fatalf("%d calls of the journal in 100 idle hours", n)
		}
	})
}

// TestBadRequests checks that a request that cannot be carried out gets an error with the right code.
func TestBadRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, func(c core.Task) core.Input {
			return core.TaskEnded{Step: c.Token.Step, Attempt: c.Token.Attempt, Output: bytes.Repeat([]byte("1"), 2000)}
		}, func(c *Config) { c.MaxPayload = 1000 })
		def := flow("one", task()).definition()
		big := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 2000)...), '"')
		large := StartRequest{Definition: def, Start: core.Start{Input: big}}
		if _, err := e.Start(t.Context(), large); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		var own *Error
		bad := def
		bad.ID, bad.Source = core.DefinitionID{1}, []byte("{")
		_, err := e.Start(t.Context(), StartRequest{Definition: bad})
		if !errors.As(err, &own) || own.Code != CodeInvalid {
			t.Error(err)
		}
		id := mustStart(t, e, flow("one", task()))
		err = e.Signal(t.Context(), id, core.SignalReceived{Name: "x", Payload: big}, false)
		if !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		out, err := e.Result(t.Context(), id)
		if err != nil || out.Failure == nil || out.Failure.Type != "output_too_large" {
			t.Errorf("%+v %v", out, err)
		}
		if err := e.Signal(t.Context(), id, core.SignalReceived{Name: "x"}, false); !errors.Is(err, ErrRunClosed) {
			t.Error(err)
		}
		pause := core.Operation{Op: core.OpPause, Step: core.NoStep}
		if err := e.Operate(t.Context(), core.RunID{3}, pause); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		closeEngine(t, e)
		if _, err := e.Start(t.Context(), StartRequest{Definition: def}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := e.Result(t.Context(), id); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// TestFullDisk checks that while the disk is full, starts are refused at once and reports of workers are kept. When the
// disk has room again, all runs go on.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var full atomic.Bool
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			return errorIf(op == memory.OpAppend && full.Load(), fmt.Errorf("disk: %w", journal.ErrFull))
		}
		e, c := open(t, j, -1, nil)
		c.arrived = make(chan core.Task, 100)
		defer closeEngine(t, e)
		p := flow("two", task(), task())
		var ids []core.RunID
		var tasks []core.Task
		for range 5 {
			ids = append(ids, mustStart(t, e, p))
			tasks = append(tasks, <-c.arrived)
		}
		waits := make(chan error, len(ids))
		for _, id := range ids {
			go func() {
				out, err := e.Result(context.Background(), id)
				if err == nil && out.Phase != core.RunSucceeded {
					err = fmt.Errorf("the run is %s", out.Phase)
				}
				waits <- err
			}()
		}
		synctest.Wait()
		full.Store(true)
		if _, err := e.Start(t.Context(), StartRequest{Definition: p.definition()}); !errors.Is(err, ErrStalled) {
			t.Fatalf("the first start on a full disk: %v", err)
		}
		for _, k := range tasks {
			e.Report(k.Token.Run, succeed(k))
		}
		<-time.After(time.Minute)
		began := time.Now()
		_, err := e.Start(t.Context(), StartRequest{Definition: p.definition()})
		if !errors.Is(err, ErrStalled) || time.Since(began) > 0 {
			t.Fatalf("a later start on a full disk: %v after %s", err, time.Since(began))
		}
		if s := e.Stats(); s.Stalled == "" {
			t.Fatal("Stats does not say that the engine is stalled")
		}
		full.Store(false)
		<-time.After(10 * time.Second)
		for range ids {
			k := <-c.arrived
			if k.StepName != "s1" || k.Token.Attempt != 1 {
				t.Fatalf("a task that was finished runs again: %+v", k.Token)
			}
			e.Report(k.Token.Run, succeed(k))
		}
		for range ids {
			if err := <-waits; err != nil {
				t.Fatal(err)
			}
		}
		if s := e.Stats(); s.Stalled != "" {
			t.Fatal(s.Stalled)
		}
		page, err := e.List(t.Context(), journal.Query{})
		if err != nil || len(page.Runs) != len(ids) {
			t.Fatalf("%d runs, want %d: a refused start was saved (%v)", len(page.Runs), len(ids), err)
		}
	})
}

// TestCloseAndReopen checks that after Close the view is complete, and the next engine goes on where this one stopped.
func TestCloseAndReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		e, c := open(t, j, 2, nil)
		c.arrived = make(chan core.Task, 100)
		var ids []core.RunID
		for range 10 {
			ids = append(ids, mustStart(t, e, flow("two", task(), task())))
		}
		k := <-c.arrived
		e.Report(k.Token.Run, succeed(k))
		closeEngine(t, e)
		lease, err := j.Acquire(t.Context(), 0, "test")
		if err != nil || lease.Through != lease.Last {
			t.Fatalf("the view has batch %d of %d, %v", lease.Through, lease.Last, err)
		}
		if err := j.Release(t.Context(), 0, lease.Epoch); err != nil {
			t.Fatal(err)
		}
		recovered := false
		e, c = open(t, j, 3, succeed, func(cfg *Config) {
			cfg.BeforeRecovery = func(context.Context) error { recovered = true; return nil }
		})
		for _, id := range ids {
			if out, err := e.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
				t.Fatal(out, err)
			}
		}
		closeEngine(t, e)
		for tok := range c.begun {
			if tok.Run == k.Token.Run && tok.Step == k.Token.Step {
				t.Fatal("a finished step ran again")
			}
		}
		if !recovered {
			t.Fatal("BeforeRecovery was not called")
		}
	})
}

// TestBackpressure checks that if the disk is slow, callers wait. None is refused.
func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &slowJournal{Journal: memory.New(), latency: 10 * time.Millisecond, count: true}
		e, _ := open(t, j, -1, succeed, func(c *Config) { c.Inflight = 8 })
		defer closeEngine(t, e)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				id := mustStart(t, e, flow("three", task(), task(), task()))
				if out, err := e.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
					t.Error(out, err)
				}
			})
		}
		wg.Wait()
		if n := j.largest.Load(); n > 64 {
			t.Errorf("a batch has %d entries, want at most 64", n)
		}
	})
}

// TestRetention checks that a closed run is removed after Config.Retention, an open one is not.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed, func(c *Config) { c.Retention = time.Hour })
		defer closeEngine(t, e)
		old := mustStart(t, e, flow("one", task()))
		sleeper := mustStart(t, e, flow("nap", nap(100*time.Hour)))
		<-time.After(50 * time.Minute)
		if _, err := e.Entries(t.Context(), old, 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Minute)
		if _, err := e.Entries(t.Context(), old, 0); !errors.Is(err, ErrNotFound) {
			t.Fatal("a run exists longer than Config.Retention:", err)
		}
		if _, err := e.Entries(t.Context(), sleeper, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCloseWhileBusy checks that callers who are at work when the engine is closed get ErrClosed.
func TestCloseWhileBusy(t *testing.T) {
	e, _ := open(t, memory.New(), -1, succeed)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				s, err := e.Start(context.Background(), StartRequest{Definition: flow("one", task()).definition()})
				if err == nil {
					_, err = e.Result(context.Background(), s.Run)
				}
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	for e.Stats().Seq < 100 {
		_, _ = e.List(context.Background(), journal.Query{})
	}
	closeEngine(t, e)
	wg.Wait()
}
