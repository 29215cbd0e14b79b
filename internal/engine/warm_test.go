package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// countingHistory counts how often histories are read.
type countingHistory struct {
	journal.Journal
	reads atomic.Int64
}

func (c *countingHistory) History(ctx context.Context, id core.RunID) (journal.History, error) {
	c.reads.Add(1)
	return c.Journal.History(ctx, id)
}

// TestInputsReadNoHistory checks that an input to a run with a long history, and the entries that follow from it, need
// no read of that history: else a run that gets many inputs would get ever slower.
func TestInputsReadNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &countingHistory{Journal: memory.New()}
		e, err := New(Config{Journal: j, Kinds: plans})
		if err == nil {
			err = e.Open(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("waits", nap(1000*time.Hour)))
		send := func() {
			if err := e.Signal(t.Context(), id, core.SignalReceived{Name: "go"}, false); err != nil {
				t.Fatal(err)
			}
		}
		for range warmFrom {
			send()
		}
		all, err := e.Entries(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		j.reads.Store(0)
		for known := len(all); known < len(all)+100; known++ {
			<-time.After(time.Minute) // the view has all that came before
			send()
			rest, err := e.Entries(t.Context(), id, known)
			if err != nil || len(rest) != 1 {
				t.Fatalf("%d entries follow the first %d, %v", len(rest), known, err)
			}
			<-time.After(time.Minute)
			if rest, err := e.Entries(t.Context(), id, known); err != nil || len(rest) != 1 {
				t.Fatalf("a minute later %d entries follow the first %d, %v", len(rest), known, err)
			}
		}
		if n := j.reads.Load(); n > 0 {
			t.Errorf("the history was read %d times", n)
		}
	})
}

// TestWarmRunsAreBounded checks that the runs which stay in memory leave once they are more than there is room for, the
// one that was used least lately first, and are as they were when they are read again.
func TestWarmRunsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openOn(t, memory.New())
		defer closeEngine(t, e)
		send := func(id core.RunID) {
			s := core.SignalReceived{Name: "go", Payload: []byte(`"` + strings.Repeat("x", warmBytes/8/warmFrom) + `"`)}
			if err := e.Signal(t.Context(), id, s, false); err != nil {
				t.Fatal(err)
			}
		}
		const runs = 12
		var ids []core.RunID
		for range runs {
			id := mustStart(t, e, flow("waits", nap(1000*time.Hour)))
			ids = append(ids, id)
			for range warmFrom {
				send(id)
			}
			<-time.After(time.Minute)
		}
		loaded := e.Stats().Loaded
		if loaded == 0 || loaded > 8 {
			t.Errorf("%d of %d runs are in memory, each an eighth of what there is room for", loaded, runs)
		}
		for _, id := range ids {
			send(id)
			if all, err := e.Entries(t.Context(), id, 0); err != nil || len(all) < warmFrom+2 {
				t.Errorf("run %s has %d entries, %v", id, len(all), err)
			}
		}
	})
}
