package engine

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestWindowIsReadAgain checks that the runs that come due next are read again if neither their list nor their
// histories could be read. They wake when that succeeds, so a run whose time is far enough away wakes on time.
func TestWindowIsReadAgain(t *testing.T) {
	for _, op := range []memory.Op{memory.OpDue, memory.OpHistory} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := memory.New()
				var left, failed atomic.Int64
				j.Fault = func(is memory.Op, _ *journal.Batch) error {
					if is == op && left.Add(-1) >= 0 {
						failed.Add(1)
						return errRead
					}
					return nil
				}
				e, _ := open(t, j, -1, succeed, func(c *Config) { c.Horizon = 10 * time.Minute })
				defer closeEngine(t, e)
				began := time.Now()
				id := mustStart(t, e, flow("sleeper", nap(2*time.Hour), task()))
				<-time.After(time.Hour)
				if n := e.Stats().Loaded; n != 0 {
					t.Fatalf("%d runs are in memory", n)
				}
				ended := make(chan error)
				go func() {
					_, err := e.Result(t.Context(), id)
					ended <- err
				}()
				synctest.Wait() // it has looked at the run itself
				left.Store(1)
				if err := <-ended; err != nil || failed.Load() != 1 {
					t.Fatalf("%v after %d failed reads", err, failed.Load())
				}
				// The window is read half a horizon before the run is due, and again half a horizon later.
				if late := time.Since(began) - 2*time.Hour; late > time.Second {
					t.Errorf("the run went on %s late", late)
				}
			})
		})
	}
}

// TestEarlierTimer checks that a run that comes due before all others wakes on time if it is started while the loop
// sleeps until something later.
func TestEarlierTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed, func(c *Config) { c.Horizon = 24 * time.Hour })
		defer closeEngine(t, e)
		mustStart(t, e, flow("late", nap(10*time.Hour)))
		<-time.After(lookAtClock + lookAtClock/2) // everything is saved, and the loop sleeps
		const sleep = lookAtClock / 10
		began := time.Now()
		id := mustStart(t, e, flow("early", nap(sleep)))
		if _, err := e.Result(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > sleep+time.Second {
			t.Errorf("a sleep of %s took %s", sleep, took)
		}
	})
}

// TestBatchIsAnsweredBeforeAFailedRead checks that a batch is saved although a run cannot be read while it is on its
// way, so that later changes must not be saved. Who waits for the batch is told so before the partition forgets its
// memory.
func TestBatchIsAnsweredBeforeAFailedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &unreliableReads{Journal: memory.New()}
		e, _ := open(t, &slowJournal{Journal: j, latency: time.Second}, -1, succeed)
		defer closeEngine(t, e)
		sleeper := mustStart(t, e, flow("sleeper", nap(100*time.Hour)))
		<-time.After(time.Hour)
		if n := e.Stats().Loaded; n != 0 {
			t.Fatalf("%d runs are in memory", n)
		}
		started := make(chan error)
		go func() {
			_, err := e.Start(t.Context(), StartRequest{Definition: flow("one", task()).definition()})
			started <- err
		}()
		synctest.Wait() // the batch with the start is on its way
		j.failReads(sleeper, 1)
		e.Report(sleeper, core.TaskEnded{Step: 0, Attempt: 1})
		synctest.Wait()
		if n := j.failuresLeft(sleeper); n != 0 {
			t.Fatal("the run was not read")
		}
		if err := <-started; err != nil {
			t.Errorf("the start was saved, and its caller is told: %v", err)
		}
		<-time.After(time.Minute)
		if s := e.Stats().Stalled; s != "" {
			t.Errorf("the engine is still stalled: %s", s)
		}
	})
}

// TestFailedAppendLeavesNothingInMemory checks that after a failed append nothing of the batch is left in memory, nor
// anything that follows from it.
func TestFailedAppendLeavesNothingInMemory(t *testing.T) {
	r := newRig(t, -1)
	saved := r.start(flow("one", task()))
	r.settle()
	lost := r.start(flow("two", task()))
	r.p.Report(saved, succeed(r.workers.dispatched()[0]), r.now)
	if b := r.p.Cut(r.now); b == nil {
		t.Fatal("there is no batch")
	}
	r.p.Failed(errBroken)
	r.p.Each(func(run *core.Run) { t.Errorf("run %s is in memory", run.ID) })
	if s := r.p.Stats(); s.Loaded != 0 || s.Queued != 0 || s.Behind != 0 {
		t.Errorf("%+v is left", s)
	}
	if err := r.p.Open(t.Context(), r.now); err != nil {
		t.Fatal(err)
	}
	r.settle()
	r.wantPhase(saved, core.RunSucceeded) // the report was kept
	if _, err := r.journal.History(t.Context(), lost); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the run whose start failed: %v", err)
	}
}

// TestSetAsideRunLeavesMemoryMeanwhile checks that a run that an earlier owner had set aside goes on although it was
// read for a caller, and left memory again, while the window was read that finds such runs.
func TestSetAsideRunLeavesMemoryMeanwhile(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	at := &plantedPanic{"decide", 1_000_000}
	r.trap = at.trap
	r.restart()
	wait := event("go")
	wait.Total = time.Hour
	id := r.start(flow("bad", wait))
	r.settle()
	at.from = 1
	ask(r, &InputCall{Run: id, Input: core.SignalReceived{Name: "go"}})
	r.pass(time.Minute)
	if r.p.SetAside(id) == nil {
		t.Fatal("the run is not set aside")
	}
	r.trap = nil
	r.restart()
	w, ok := r.p.Window(r.now)
	if !ok {
		t.Fatal("no window is read")
	}
	var read []Loaded
	far, err := ReadWindow(t.Context(), r.journal, 0, w, func(runs []Loaded) error {
		read = append(read, runs...)
		return nil
	})
	ask(r, &AttemptCall{Token: core.Token{Run: id, Step: 0, Attempt: 1}}) // reads the run
	if n := r.p.Stats().Loaded; n != 0 {
		t.Fatalf("%d runs are in memory", n)
	}
	r.p.Loaded(w, read, r.now)
	r.p.WindowDone(w, far, err)
	r.pass(2 * time.Hour)
	r.wantPhase(id, core.RunFailed) // its step has timed out
	r.wantRowsOfHistory()
}
