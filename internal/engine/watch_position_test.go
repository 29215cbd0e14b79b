package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestWatchFromAPosition checks that a caller that has seen the beginning of a history gets the rest of it, whether the
// engine has that in memory, in the view, or in both.
func TestWatchFromAPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("watch", task(), nap(time.Minute), task(), nap(time.Hour), task()))
		for _, wait := range []time.Duration{0, 30 * time.Second, 10 * time.Minute, 2 * time.Hour} {
			<-time.After(wait)
			all, err := e.Entries(t.Context(), id, 0)
			if err != nil {
				t.Fatal(err)
			}
			for after := range len(all) + 2 {
				rest, err := e.Entries(t.Context(), id, after)
				if err != nil || len(rest) != max(len(all)-after, 0) {
					t.Fatalf("%s: %d of %d entries after %d: %v", wait, len(rest), len(all), after, err)
				}
				for i := range rest {
					if rest[i].At != all[after+i].At {
						t.Errorf("%s: entry %d after %d is another one", wait, i, after)
					}
				}
			}
		}
		all, err := e.Entries(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		for after := range len(all) + 1 {
			n := 0
			err := e.Watch(t.Context(), id, after, func(core.Entry) error { n++; return nil })
			if err != nil || n != len(all)-after {
				t.Errorf("watched %d of %d entries after %d: %v", n, len(all), after, err)
			}
		}
	})
}

// TestPositionInMemoryReadsNoHistory checks that following a run that is in memory reads nothing from the journal.
func TestPositionInMemoryReadsNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		var reads atomic.Int32
		j.Fault = func(op memory.Op, _ *journal.Batch) error {
			if op == memory.OpHistory {
				reads.Add(1)
			}
			return nil
		}
		e, c := open(t, j, -1, nil)
		c.arrived = make(chan core.Task, 1)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("one", task()))
		k := <-c.arrived
		<-time.After(10 * time.Second) // the view has everything by now
		all, err := e.Entries(t.Context(), id, 0)
		if err != nil || reads.Load() != 1 {
			t.Fatalf("%d reads: %v", reads.Load(), err)
		}
		if rest, err := e.Entries(t.Context(), id, len(all)); err != nil || len(rest) != 0 || reads.Load() != 1 {
			t.Fatalf("%d entries, %d reads: %v", len(rest), reads.Load(), err)
		}
		n, over := 0, make(chan error)
		go func() {
			over <- e.Watch(t.Context(), id, len(all), func(core.Entry) error { n++; return nil })
		}()
		synctest.Wait() // else the run may have ended, and left the memory, before it is followed
		e.Report(id, succeed(k))
		err = <-over
		if err != nil || n == 0 || reads.Load() != 1 {
			t.Fatalf("%d entries, %d reads: %v", n, reads.Load(), err)
		}
	})
}
