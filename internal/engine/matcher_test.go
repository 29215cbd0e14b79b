package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestSlotsAreCountedOnce checks that two partitions of a process share the slots of its workers and get them in turn.
func TestSlotsAreCountedOnce(t *testing.T) {
	workers := newFakeWorkers(2)
	m := slots.NewMatcher()
	m.Add("w", workers)
	rigs := make([]*rig, 2)
	var woken []int
	for i := range rigs {
		r := &rig{t: t, workers: workers, journal: memory.New(), now: epoch, seed: uint64(i * 1000)}
		cfg := r.config()
		cfg.Kinds, cfg.Workers, cfg.Matcher = plans, nil, m
		cfg.Wake = func(queue, taskType string) {
			if queue != "" || taskType != "noop" {
				t.Errorf("partition %d is woken for queue %q, type %q", i, queue, taskType)
			}
			woken = append(woken, i)
		}
		r.p = NewPartition(cfg)
		if err := r.p.Open(t.Context(), r.now); err != nil {
			t.Fatal(err)
		}
		rigs[i] = r
	}
	owner := map[core.RunID]int{}
	for range 4 {
		for i, r := range rigs {
			owner[r.start(flow("one", task()))] = i
			r.settle()
		}
	}
	executing := workers.dispatched()
	var order []int
	for len(executing) > 0 {
		if len(executing) > 2 {
			t.Fatalf("%d attempts execute in 2 slots", len(executing))
		}
		tok := executing[0].Token
		i := owner[tok.Run]
		order = append(order, i)
		rigs[i].p.Report(tok.Run, succeed(executing[0]), epoch)
		rigs[i].settle()
		for len(woken) > 0 {
			next := woken[0]
			woken = woken[1:]
			rigs[next].p.Match("", "noop", epoch)
			rigs[next].settle()
		}
		executing = append(executing[1:], workers.dispatched()...)
	}
	if want := []int{0, 1, 0, 1, 0, 1, 0, 1}; !slices.Equal(order, want) {
		t.Errorf("attempts of partitions executed in the order %v, want %v", order, want)
	}
	for id, i := range owner {
		rigs[i].wantPhase(id, core.RunSucceeded)
		if a := rigs[i].journal.Attempts(id); len(a) != 0 && a[0].Worker != "w" {
			t.Errorf("the worker of run %s is %q", id, a[0].Worker)
		}
	}
}

// TestClosedPartitionGivesSlotsBack checks that the slot that a closed partition held, and its place among those that
// wait, are free for another partition.
func TestClosedPartitionGivesSlotsBack(t *testing.T) {
	m := slots.NewMatcher()
	m.Add("w", newFakeWorkers(1))
	var woken int
	first := newTasks(&base{cfg: Config{Matcher: m, Wake: func(string, string) {}}}, heart{})
	second := newTasks(&base{cfg: Config{Matcher: m, Wake: func(string, string) { woken++ }}}, heart{})
	key := slots.Key{Queue: "q", Type: "t"}
	q := first.queue(key)
	if !first.reserve(q) {
		t.Fatal("the only slot is not free")
	}
	tok := core.Token{Attempt: 1}
	first.hold(tok)
	if second.reserve(second.queue(key)) {
		t.Fatal("two partitions got the same slot")
	}
	if first.reserve(q) {
		t.Fatal("one partition got the same slot twice")
	}
	first.close()
	if woken != 1 {
		t.Fatalf("the waiting partition was woken %d times, want once", woken)
	}
	if !second.reserve(second.queue(key)) {
		t.Fatal("the slot of the closed partition is not free")
	}
}

// TestCallsWaitForOpen checks that a start that comes before Open happens after Open. If the engine is closed without
// having been opened, the start fails.
func TestCallsWaitForOpen(t *testing.T) {
	e, err := New(Config{Journal: memory.New(), Kinds: plans})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := e.Start(t.Context(), StartRequest{Definition: flow("one", nap(time.Hour)).definition()})
		got <- err
	}()
	if err := e.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if err := e.Open(t.Context()); err == nil {
		t.Error("an engine was opened twice")
	}
	closeEngine(t, e)

	if e, err = New(Config{Journal: memory.New(), Kinds: plans}); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := e.Start(t.Context(), StartRequest{Definition: flow("one", nap(time.Hour)).definition()})
		got <- err
	}()
	closeEngine(t, e)
	if err := <-got; err == nil {
		t.Error("an engine that was never opened started a run")
	}
}
