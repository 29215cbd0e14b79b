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

// Whoever watches a run hears of its end also where the append that held it was on disk and only its answer was lost.
func TestWatchAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var lose atomic.Bool
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			return only(op == memory.OpAck && lose.CompareAndSwap(true, false), errBroken)
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

// What was asked while a batch was on its way that then failed is answered when the journal takes writes again: it wrote nothing,
// so there is nothing in doubt.
func TestReadersOutlastAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var full atomic.Bool
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			return only(op == memory.OpAppend && full.Load(), journal.ErrFull)
		}
		e, _ := open(t, &syncing{Journal: j, latency: time.Second}, -1, succeed)
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

// Requests that the loop had taken in when the disk was full, and had no room for, are refused like those that come later.
func TestAFullDiskRefusesThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		j.Fault = func(op memory.Op, _ *journal.Batch) error { return only(op == memory.OpAppend, journal.ErrFull) }
		e, _ := open(t, &syncing{Journal: j, latency: time.Second}, -1, succeed, func(c *Config) { c.Inflight = 4 })
		started := make(chan error, 4)
		for range cap(started) {
			go func() {
				_, err := e.Start(t.Context(), StartRequest{Definition: flow("three", task(), task(), task()).definition()})
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
		// It does not go on by itself any more.
		if _, err := e.Start(t.Context(), StartRequest{Definition: flow("one", task()).definition()}); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := e.Err(); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// What was reported before Close is recorded, also where the journal only then takes writes again.
func TestCloseRecordsWhatCameDuringAReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var full atomic.Bool
		opening, opened := make(chan bool), make(chan bool)
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			if op == memory.OpRenew && full.Load() {
				opening <- true
				<-opened
			}
			return only(op == memory.OpAppend && full.Load(), journal.ErrFull)
		}
		e, c := open(t, j, -1, nil)
		c.arrived = make(chan core.Task, 1)
		id := mustStart(t, e, flow("two", task(), task()))
		k := <-c.arrived
		<-time.After(time.Minute) // the view knows it all
		full.Store(true)
		if err := e.Signal(t.Context(), id, core.SignalReceived{Name: "x"}); !errors.Is(err, ErrStalled) {
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
