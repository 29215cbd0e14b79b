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
	"github.com/pawl-dev/pawl/policy"
)

// leased returns a journal whose leases last 30 seconds. While cut has an error, renewals and appends fail with it.
func leased() (j *memory.Journal, cut *atomic.Pointer[error]) {
	j, cut = memory.New(), new(atomic.Pointer[error])
	j.Term, j.Now = 30*time.Second, func() core.Time { return policy.At(time.Now()) }
	j.Fault = func(op memory.Op, _ *journal.Batch) error {
		if err := cut.Load(); err != nil && (op == memory.OpRenew || op == memory.OpAppend) {
			return *err
		}
		return nil
	}
	return j, cut
}

// TestOwnerIsNotPushedAside checks that a living engine keeps its partition, although it appends nothing for hours.
// Another engine that tries to open it gets CodeHeld, and may try again.
func TestOwnerIsNotPushedAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := leased()
		e, _ := open(t, j, -1, succeed, func(c *Config) { c.Owner = "the first" })
		id := mustStart(t, e, flow("nap", nap(48*time.Hour)))
		other, err := New(Config{Journal: j, Kinds: plans, Workers: newFakeWorkers(0)})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			wait(time.Hour)
			var own *Error
			err := other.Open(t.Context())
			if !errors.Is(err, journal.ErrHeld) || !errors.As(err, &own) || own.Code != CodeHeld {
				t.Fatalf("a second engine opened: %v", err)
			}
		}
		closeEngine(t, e)
		if err := other.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out, err := other.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
			t.Fatal(out, err)
		}
		closeEngine(t, other)
	})
}

// TestFencedEngineStops checks that an engine that lost its lease while the network was down ends after its next append
// is refused: it tells its callers, stops its workers, and does not acquire the partition again.
func TestFencedEngineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, cut := leased()
		e, workers := open(t, j, -1, nil)
		id := mustStart(t, e, flow("long", task()))
		wait(5 * time.Second) // its row is written
		down := errors.New("the network is down")
		cut.Store(&down)
		wait(time.Minute)
		cut.Store(nil)
		other, _ := open(t, j, -1, succeed)
		waits := make(chan error)
		go func() {
			_, err := e.Result(context.Background(), id)
			waits <- err
		}()
		_, err := e.Start(t.Context(), StartRequest{Definition: flow("one", task()).definition()})
		var own *Error
		if !errors.Is(err, journal.ErrFenced) || !errors.As(err, &own) || own.Code != CodeFenced {
			t.Fatal(err)
		}
		<-e.Done()
		if err := <-waits; !errors.Is(err, journal.ErrFenced) {
			t.Fatal(err)
		}
		if err := e.Close(); !errors.Is(err, journal.ErrFenced) {
			t.Fatal(err)
		}
		if len(workers.revoked) != 1 || workers.revoked[0].Run != id {
			t.Errorf("revoked: %v, want the attempt of run %s", workers.revoked, id)
		}
		if out, err := other.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
			t.Fatal(out, err)
		}
		closeEngine(t, other)
	})
}

// TestStalledEngineTakesNothingBack checks that an engine goes on as the same owner after the journal took no writes
// for a while. But if there is a newer owner by then, the engine ends.
func TestStalledEngineTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, cut := leased()
		e, _ := open(t, j, -1, succeed)
		full := journal.ErrFull
		stall := func() {
			cut.Store(&full)
			_, err := e.Start(t.Context(), StartRequest{Definition: flow("one", task()).definition()})
			if !errors.Is(err, ErrStalled) {
				t.Fatal(err)
			}
		}
		stall()
		cut.Store(nil)
		wait(10 * time.Second)
		before := e.Stats().Seq
		id := mustStart(t, e, flow("one", task()))
		out, err := e.Result(t.Context(), id)
		if err != nil || out.Phase != core.RunSucceeded || e.Stats().Seq <= before {
			t.Fatal(out, err)
		}
		stall()
		wait(time.Minute)
		lease, err := j.Acquire(t.Context(), 0, "a newer owner")
		if err != nil {
			t.Fatal(err)
		}
		cut.Store(nil)
		<-e.Done()
		if err := e.Close(); !errors.Is(err, journal.ErrFenced) {
			t.Fatal(err)
		}
		if again, err := j.Renew(t.Context(), 0, lease.Epoch); err != nil || again.Epoch != lease.Epoch {
			t.Fatal(again, err)
		}
	})
}

// wait lets virtual time pass.
func wait(d time.Duration) { <-time.NewTimer(d).C }
