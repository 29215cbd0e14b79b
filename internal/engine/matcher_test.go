package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/journal/memory"
)

// TestSlotsAreCountedOnce: two partitions of a process share its workers' slots, and get them in turn.
func TestSlotsAreCountedOnce(t *testing.T) {
	workers := newCrew(2)
	m := NewMatcher()
	m.Add("w", workers)
	rigs := make([]*rig, 2)
	var woken []int
	for i := range rigs {
		r := &rig{t: t, crew: workers, journal: memory.New(), now: epoch, seed: uint64(i * 1000)}
		cfg := r.config()
		cfg.Kinds, cfg.Workers, cfg.Matcher = plans, nil, m
		cfg.Wake = func(queue, taskType string) {
			if queue != "" || taskType != "noop" {
				t.Errorf("partition %d is called for %q, %q", i, queue, taskType)
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
	executing := workers.took()
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
		executing = append(executing[1:], workers.took()...)
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

// TestSlotsOfAPartitionThatEnds: what it held and waited for is there for the others.
func TestSlotsOfAPartitionThatEnds(t *testing.T) {
	m := NewMatcher()
	m.Add("w", newCrew(1))
	var woken int
	a, b := &seat{wake: func(string, string) {}}, &seat{wake: func(string, string) { woken++ }}
	first, second := newTasks(m, a.wake), newTasks(m, b.wake)
	key := queueKey{queue: "q", taskType: "t"}
	q := first.queue(key)
	if !first.take(q) {
		t.Fatal("the only slot is not free")
	}
	tok := core.Token{Attempt: 1}
	first.hold(tok)
	if second.take(second.queue(key)) {
		t.Fatal("a slot was given twice")
	}
	if first.take(q) {
		t.Fatal("a slot was given twice")
	}
	first.close()
	if woken != 1 {
		t.Fatalf("the partition that waits was called %d times", woken)
	}
	if !second.take(second.queue(key)) {
		t.Fatal("the slot is not free")
	}
}

// TestNewEngineWaits: what is asked and reported before Open is done after it, and an engine that is never opened ends.
func TestNewEngineWaits(t *testing.T) {
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
		t.Error("a run was started by an engine that was never opened")
	}
}
