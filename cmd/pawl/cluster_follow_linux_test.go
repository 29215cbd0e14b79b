package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// hearer follows the runs of a cluster through one node.
type hearer struct {
	*nodesBed
	stop context.CancelFunc
	done chan error

	mu     sync.Mutex
	news   chan struct{} // closed when something has come
	last   string        // the last change
	missed int
	ended  map[string]int // number of events about a run's end, by the run's id
}

// follow follows all runs through a node, from where another stream was left, and returns when the stream has begun.
func (b *nodesBed) follow(c *httpapi.Client, after string) *hearer {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	f := &hearer{
		nodesBed: b, stop: stop, done: make(chan error, 1), news: make(chan struct{}), ended: map[string]int{},
	}
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		f.done <- c.Changes(ctx, api.Query{Workflow: "work"}, after, func(one api.Change) error {
			f.take(one)
			begin()
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-f.done:
		b.Fatal(err)
	}
	b.Cleanup(stop)
	return f
}

func (f *hearer) take(one api.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = one.ID
	if one.Missed {
		f.missed++
	}
	if one.Event != nil && one.Event.Type == "run.succeeded" {
		f.ended[one.Run.Run]++
	}
	close(f.news)
	f.news = make(chan struct{})
}

// until waits until something holds of what has come.
func (f *hearer) until(what string, holds func() bool) {
	f.Helper()
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		f.mu.Lock()
		ok, news := holds(), f.news
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case err := <-f.done:
			f.Fatalf("the stream ended before %s: %v", what, err)
		case <-over.C:
			f.mu.Lock()
			ends, missed := len(f.ended), f.missed
			f.mu.Unlock()
			f.Fatalf("waiting for %s: %d ends of runs, missed %d times", what, ends, missed)
		}
	}
}

// misses returns how often the stream may have missed something.
func (f *hearer) misses() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missed
}

// hears waits until the ends of these runs were told, each once.
func (f *hearer) hears(ids []string) {
	f.Helper()
	f.until("the ends of the runs", func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return f.ended[id] == 0 })
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if f.ended[id] != 1 {
			f.Errorf("the end of run %s was told %d times", id, f.ended[id])
		}
	}
}

// leave ends the stream and returns the last change.
func (f *hearer) leave() string {
	f.Helper()
	f.stop()
	if err := <-f.done; api.CodeOf(err) != api.CodeCancelled {
		f.Errorf("a stream that was left ends with %v", err)
	}
	return f.last
}

// TestFollowAllNodes checks that a stream brings the events of the runs of all nodes, whichever node is asked. It
// reports possible gaps, as after the kill of a node. Cut at one node, it goes on at another.
func TestFollowAllNodes(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	a, atA := b.node()
	second, atB := b.node()
	_, atC := b.node()
	b.await(2, 2, 2)

	f := b.follow(atA, "")
	f.hears(b.start(atB, "calm", 12))
	if n := f.misses(); n > 0 {
		t.Errorf("missed something %d times while nothing moved", n)
	}

	place := f.leave()
	ids := b.start(atA, "between", 6)
	b.ends(atA, ids)
	f = b.follow(atC, place)
	f.hears(ids)
	if f.misses() > 0 {
		t.Error("a stream that goes on at another node, after a moment, has missed something")
	}

	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.await(3, 3)
	f.until("the word that something may be missing", func() bool { return f.missed > 0 })
	f.hears(b.start(atC, "killed", 12))

	before := f.misses()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.await(6)
	f.until("the word that partitions have come", func() bool { return f.missed > before })
	f.hears(b.start(atC, "alone", 12))
	f.leave()
	if n := slices.Max(slices.Collect(maps.Values(f.ended))); n > 2 {
		t.Errorf("an end was told %d times", n)
	}
}
