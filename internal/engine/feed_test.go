package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// consumer reads a feed and remembers what it got.
type consumer struct {
	mu      sync.Mutex
	entries []core.Entry
	seqs    []uint64
	cancel  context.CancelFunc
	done    chan error
}

func consume(t *testing.T, e *Engine, name string) *consumer {
	t.Helper()
	c := &consumer{done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	go func() {
		c.done <- e.Feed(ctx, name, func(seq uint64, entries []core.Entry) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.entries, c.seqs = append(c.entries, entries...), append(c.seqs, seq)
			return nil
		})
	}()
	synctest.Wait()
	return c
}

func (c *consumer) stop() { c.cancel(); <-c.done }

// of returns how many entries of a run it got.
func (c *consumer) of(id core.RunID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.entries {
		if e.Run == id {
			n++
		}
	}
	return n
}

func (c *consumer) wants(t *testing.T, e *Engine, ids ...core.RunID) {
	t.Helper()
	for _, id := range ids {
		all, err := e.Entries(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.of(id); got != len(all) {
			t.Errorf("got %d of %d entries of run %s", got, len(all), id)
		}
	}
}

func mustEnd(t *testing.T, e *Engine, p plan) core.RunID {
	t.Helper()
	id := mustStart(t, e, p)
	if _, err := e.Result(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// A feed gets everything that is committed after it began, once each, also what happened while nobody read it.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		before := mustEnd(t, e, flow("before", task()))
		c := consume(t, e, "hooks")
		first := mustEnd(t, e, flow("first", task(), nap(time.Minute), task()))
		synctest.Wait()
		c.wants(t, e, first)
		if n := c.of(before); n != 0 {
			t.Errorf("%d entries from before the feed began", n)
		}
		if err := e.Feed(t.Context(), "hooks", nil); !errors.Is(err, ErrConflict) {
			t.Errorf("a second reader: %v", err)
		}
		c.stop()
		away := mustEnd(t, e, flow("away", task(), nap(time.Hour), task()))
		<-time.After(time.Minute) // the view has all of it
		again := consume(t, e, "hooks")
		defer again.stop()
		again.wants(t, e, away)
		if n := again.of(first); n != 0 {
			t.Errorf("%d entries for the second time", n)
		}
	})
}

// A killed engine gives a consumer again what it got last, at most, and nothing is missing.
func TestFeedOutlastsAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		e, _ := open(t, j, -1, succeed)
		c := consume(t, e, "hooks")
		var ids []core.RunID
		for range 20 {
			ids = append(ids, mustEnd(t, e, flow("run", task(), nap(time.Second), task())))
		}
		<-time.After(5 * time.Second) // positions are durable
		ids = append(ids, mustEnd(t, e, flow("last", task())))
		synctest.Wait()
		after := j.Reopen() // a kill, before the last position was stored
		c.cancel()
		_ = e.Close()
		<-c.done

		second, _ := open(t, after, -1, succeed)
		defer closeEngine(t, second)
		again := consume(t, second, "hooks")
		defer again.stop()
		ids = append(ids, mustEnd(t, second, flow("new", task())))
		synctest.Wait()
		for _, id := range ids {
			all, err := second.Entries(t.Context(), id, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.of(id) + again.of(id); got < len(all) {
				t.Errorf("got %d of %d entries of run %s", got, len(all), id)
			}
		}
		if doubled := again.of(ids[0]); doubled != 0 {
			t.Errorf("%d entries came again though their position was stored long before", doubled)
		}
		again.wants(t, second, ids[len(ids)-1])
	})
}

// What a consumer fails on comes again.
func TestFeedRepeatsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		c := consume(t, e, "hooks")
		c.stop()
		id := mustEnd(t, e, flow("run", task()))
		boom := errors.New("boom")
		if err := e.Feed(t.Context(), "hooks", func(uint64, []core.Entry) error { return boom }); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		again := consume(t, e, "hooks")
		again.wants(t, e, id)
		again.stop()
		if !slices.IsSorted(again.seqs) {
			t.Errorf("out of order: %v", again.seqs)
		}
	})
}

// A consumer that is gone does not fill the disk: its feed lapses, the others go on, and it can begin again.
func TestFeedLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		e, _ := open(t, j, -1, succeed, func(c *Config) { c.FeedLimit = 20_000 })
		defer closeEngine(t, e)
		dead := consume(t, e, "dead")
		dead.stop()
		live := consume(t, e, "live")
		defer live.stop()
		var ids []core.RunID
		for range 300 {
			ids = append(ids, mustEnd(t, e, flow("run", task(), task())))
			synctest.Wait() // the live one keeps up
		}
		<-time.After(time.Minute)
		live.wants(t, e, ids...)
		if err := e.Feed(t.Context(), "dead", nil); !errors.Is(err, ErrLapsed) {
			t.Fatalf("a consumer that missed entries was told %v", err)
		}
		spans, err := j.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		if err := j.Tail(t.Context(), 0, 0, func(_ uint64, entries []core.Entry) error { kept += len(entries); return nil }); err != nil {
			t.Fatal(err)
		}
		if kept > 300 {
			t.Errorf("the journal keeps %d entries, %+v", kept, spans)
		}
		if err := e.DropFeed(t.Context(), "dead"); err != nil {
			t.Fatal(err)
		}
		fresh := consume(t, e, "dead")
		defer fresh.stop()
		id := mustEnd(t, e, flow("after", task()))
		synctest.Wait()
		fresh.wants(t, e, id)
	})
}

// Positions cost a quiet engine nothing: storing one is nothing that a consumer has to see.
func TestFeedComesToRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		c := consume(t, e, "hooks")
		defer c.stop()
		mustEnd(t, e, flow("run", task()))
		<-time.After(time.Minute)
		seq := e.Stats().Seq
		<-time.After(time.Hour)
		if now := e.Stats().Seq; now != seq {
			t.Errorf("%d batches in an idle hour", now-seq)
		}
	})
}

// Whoever reads a feed that is dropped hears it.
func TestDroppedFeedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		c := consume(t, e, "hooks")
		if err := e.DropFeed(t.Context(), "hooks"); err != nil {
			t.Fatal(err)
		}
		if err := <-c.done; !errors.Is(err, ErrNotFound) {
			t.Errorf("its reader was told %v", err)
		}
		if err := e.DropFeed(t.Context(), "never"); err != nil {
			t.Error(err)
		}
	})
}
