package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestWatchAfterALostAnswer checks that whoever watches a run gets its end if the batch with it is on disk, but the
// journal's answer is lost.
func TestWatchAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var lose atomic.Bool
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			return errorIf(op == memory.OpAck && lose.CompareAndSwap(true, false), errBroken)
		}
		e, c := open(t, j, -1, nil)
		c.arrived = make(chan core.Task, 1)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("one", task()))
		k := <-c.arrived
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		watched := make(chan error, 1)
		n := 0
		go func() { watched <- e.Watch(ctx, id, 0, func(core.Entry) error { n++; return nil }) }()
		synctest.Wait()
		lose.Store(true)
		e.Report(id, succeed(k))
		if err := <-watched; err != nil {
			t.Fatalf("after %d entries: %v", n, err)
		}
		if entries, err := e.Entries(t.Context(), id, 0); err != nil || n != len(entries) {
			t.Fatalf("%d of %d entries, %v", n, len(entries), err)
		}
	})
}

// TestReadersAreAnsweredAfterAStall checks that callers that only read while a batch fails are answered when the
// journal takes writes again.
func TestReadersAreAnsweredAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var full atomic.Bool
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			return errorIf(op == memory.OpAppend && full.Load(), journal.ErrFull)
		}
		e, _ := open(t, &slowJournal{Journal: j, latency: time.Second}, -1, succeed)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("one", task()))
		if _, err := e.Result(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		started := make(chan error, 1)
		go func() {
			_, err := e.Start(t.Context(), StartRequest{Definition: flow("one", task()).definition()})
			started <- err
		}()
		synctest.Wait()
		asked := make(chan error, 4)
		ask := func(name string, fn func() error) {
			go func() {
				if err := fn(); err != nil {
					asked <- errors.Join(errors.New(name), err)
					return
				}
				asked <- nil
			}()
		}
		ask("result", func() error { _, err := e.Result(t.Context(), id); return err })
		ask("entries", func() error { _, err := e.Entries(t.Context(), id, 0); return err })
		ask("list", func() error { _, err := e.List(t.Context(), journal.Query{}); return err })
		ask("lookup", func() error { _, err := e.Lookup(t.Context(), id.String()); return err })
		if err := <-started; !errors.Is(err, ErrStalled) {
			t.Fatal(err)
		}
		full.Store(false)
		for range 4 {
			if err := <-asked; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFullDiskRefusesWaitingStarts checks that starts that wait for room in the partition are refused when the disk is
// full, as later ones are.
func TestFullDiskRefusesWaitingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		j.Fault = func(op memory.Op, _ *journal.Batch) error { return errorIf(op == memory.OpAppend, journal.ErrFull) }
		e, _ := open(t, &slowJournal{Journal: j, latency: time.Second}, -1, succeed, func(c *Config) { c.Inflight = 4 })
		started := make(chan error, 4)
		for range cap(started) {
			go func() {
				three := flow("three", task(), task(), task())
				_, err := e.Start(t.Context(), StartRequest{Definition: three.definition()})
				started <- err
			}()
		}
		for range cap(started) {
			select {
			case err := <-started:
				if !errors.Is(err, ErrStalled) {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Error("a request waits for the disk to have room")
			}
		}
		for range 2 {
			if err := e.Close(); !errors.Is(err, journal.ErrFull) {
				t.Fatal(err)
			}
		}
		// It stays closed.
		_, err := e.Start(t.Context(), StartRequest{Definition: flow("one", task()).definition()})
		if !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := e.Err(); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// TestCloseRecordsReportsFromAReopening checks that a report of a worker is recorded if it comes while the partition is
// being opened again and Close is called before the journal takes writes again.
func TestCloseRecordsReportsFromAReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var full atomic.Bool
		opening, opened := make(chan bool), make(chan bool)
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			if op == memory.OpRenew && full.Load() {
				opening <- true
				<-opened
			}
			return errorIf(op == memory.OpAppend && full.Load(), journal.ErrFull)
		}
		e, c := open(t, j, -1, nil)
		c.arrived = make(chan core.Task, 1)
		id := mustStart(t, e, flow("two", task(), task()))
		k := <-c.arrived
		<-time.After(time.Minute) // the view has everything by now
		full.Store(true)
		if err := e.Signal(t.Context(), id, core.SignalReceived{Name: "x"}, false); !errors.Is(err, ErrStalled) {
			t.Fatal(err)
		}
		go func() { _, _ = e.List(context.Background(), journal.Query{}) }() // it waits for the journal
		<-opening
		e.Report(id, succeed(k))
		closed := make(chan error)
		go func() { closed <- e.Close() }()
		synctest.Wait()
		full.Store(false)
		opened <- true
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		h, err := j.History(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		ended := false
		for _, entry := range h.Entries {
			for _, rec := range entry.Records {
				_, now := rec.(core.StepEnded)
				ended = ended || now
			}
		}
		if !ended {
			t.Fatalf("the report is not in the history: %+v", h.Entries)
		}
	})
}

// TestLimitsAfterTheProcessStoodStill checks that reports come before limits after the process stood still, as by
// SIGSTOP, while a step is executed and its limit passes. The limit of a step that really hangs fires then.
func TestLimitsAfterTheProcessStoodStill(t *testing.T) {
	for _, c := range []struct {
		name string
		ends time.Duration // when the worker reports, after the process goes on; 0: never
		want core.RunPhase
	}{
		{"the step was done", 100 * time.Millisecond, core.RunSucceeded}, {"the step hangs", 0, core.RunFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stop atomic.Bool
				observer := Observer{Recorded: func(*Observation) {
					if stop.CompareAndSwap(true, false) {
						<-time.After(4 * time.Second)
					}
				}}
				e, w := open(t, memory.New(), -1, nil, func(cfg *Config) { cfg.Observer = observer })
				defer closeEngine(t, e)
				w.arrived = make(chan core.Task, 1)
				slow := task()
				slow.Timeout = 2 * time.Second
				id := mustStart(t, e, flow("slow", slow))
				k := <-w.arrived
				synctest.Wait()
				stop.Store(true)
				began := time.Now()
				mustStart(t, e, flow("other", nap(time.Hour)))
				if c.ends > 0 {
					<-time.After(4*time.Second + c.ends)
					e.Report(id, succeed(k))
				}
				out, err := e.Result(t.Context(), id)
				if err != nil || out.Phase != c.want {
					t.Errorf("%+v, %v", out, err)
				}
				if late := time.Since(began); late > 6*time.Second {
					t.Errorf("it ended %s after the stop", late)
				}
			})
		})
	}
}
