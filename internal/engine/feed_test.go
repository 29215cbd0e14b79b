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

// consumer reads a feed and keeps the entries that it got.
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
		c.done <- e.Feed(ctx, name, func(_ int, seq uint64, entries []core.Entry) error {
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

// count returns how many entries of a run the consumer got.
func (c *consumer) count(id core.RunID) int {
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

// wantAll checks that the consumer got each entry of the runs once.
func (c *consumer) wantAll(t *testing.T, e *Engine, ids ...core.RunID) {
	t.Helper()
	for _, id := range ids {
		all, err := e.Entries(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.count(id); got != len(all) {
			t.Errorf("got %d of %d entries of run %s", got, len(all), id)
		}
	}
}

// mustEnd starts a run and waits until it has ended.
func mustEnd(t *testing.T, e *Engine, p plan) core.RunID {
	t.Helper()
	id := mustStart(t, e, p)
	if _, err := e.Result(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestFeed checks that a consumer gets each entry that is committed after its feed began once, including those that
// were committed while it did not read.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		before := mustEnd(t, e, flow("before", task()))
		c := consume(t, e, "hooks")
		first := mustEnd(t, e, flow("first", task(), nap(time.Minute), task()))
		synctest.Wait()
		c.wantAll(t, e, first)
		if n := c.count(before); n != 0 {
			t.Errorf("the consumer got %d entries from before the feed began", n)
		}
		if err := e.Feed(t.Context(), "hooks", nil); !errors.Is(err, ErrConflict) {
			t.Errorf("a second reader of the same feed: %v", err)
		}
		c.stop()
		away := mustEnd(t, e, flow("away", task(), nap(time.Hour), task()))
		<-time.After(time.Minute) // the view has all of it
		again := consume(t, e, "hooks")
		defer again.stop()
		again.wantAll(t, e, away)
		if n := again.count(first); n != 0 {
			t.Errorf("the consumer got %d entries twice", n)
		}
	})
}

// TestBeginFeed checks that a feed that was begun misses nothing until somebody reads it, also after a kill, and is
// begun once.
func TestBeginFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		e, _ := open(t, j, -1, succeed)
		before := mustEnd(t, e, flow("before", task()))
		for range 2 {
			if err := e.BeginFeed(t.Context(), "hooks"); err != nil {
				t.Fatal(err)
			}
		}
		first := mustEnd(t, e, flow("first", task()))
		after := j.Reopen() // a kill
		_ = e.Close()
		second, _ := open(t, after, -1, succeed)
		defer closeEngine(t, second)
		if err := second.BeginFeed(t.Context(), "hooks"); err != nil {
			t.Fatal(err)
		}
		c := consume(t, second, "hooks")
		defer c.stop()
		c.wantAll(t, second, first)
		if n := c.count(before); n != 0 {
			t.Errorf("the consumer got %d entries from before the feed began", n)
		}
		if err := second.BeginFeed(t.Context(), ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("a feed without a name: %v", err)
		}
	})
}

// TestFeedAfterAKill checks that after the process was killed, a consumer misses no entry. It gets those again whose
// position was not stored.
func TestFeedAfterAKill(t *testing.T) {
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
			if got := c.count(id) + again.count(id); got < len(all) {
				t.Errorf("got %d of %d entries of run %s", got, len(all), id)
			}
		}
		if doubled := again.count(ids[0]); doubled != 0 {
			t.Errorf("the consumer got %d entries again although their position was stored", doubled)
		}
		again.wantAll(t, second, ids[len(ids)-1])
	})
}

// TestFeedRepeatsWhatFailed checks that a consumer gets the entries again on which it failed.
func TestFeedRepeatsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		c := consume(t, e, "hooks")
		c.stop()
		id := mustEnd(t, e, flow("run", task()))
		boom := errors.New("boom")
		err := e.Feed(t.Context(), "hooks", func(int, uint64, []core.Entry) error { return boom })
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		again := consume(t, e, "hooks")
		again.wantAll(t, e, id)
		again.stop()
		if !slices.IsSorted(again.seqs) {
			t.Errorf("the batches came out of order: %v", again.seqs)
		}
	})
}

// TestFeedLapses checks that a consumer that does not come back does not fill the disk. Its feed lapses, the others go
// on, and the consumer can begin again.
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
		live.wantAll(t, e, ids...)
		if err := e.Feed(t.Context(), "dead", nil); !errors.Is(err, ErrLapsed) {
			t.Fatalf("the error for a consumer that missed entries: %v", err)
		}
		spans, err := j.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		err = j.Tail(t.Context(), 0, 0, func(_ uint64, entries []core.Entry) error { kept += len(entries); return nil })
		if err != nil {
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
		fresh.wantAll(t, e, id)
	})
}

// TestFeedComesToRest checks that while nothing happens, an engine with a feed appends nothing. In particular, a batch
// that only stores a feed's position is not followed by another one.
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

// TestDroppedFeedEnds checks that the reader of a feed that is dropped gets an error.
func TestDroppedFeedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		c := consume(t, e, "hooks")
		if err := e.DropFeed(t.Context(), "hooks"); err != nil {
			t.Fatal(err)
		}
		if err := <-c.done; !errors.Is(err, ErrNotFound) {
			t.Errorf("the error for its reader: %v", err)
		}
		if err := e.DropFeed(t.Context(), "never"); err != nil {
			t.Error(err)
		}
	})
}
