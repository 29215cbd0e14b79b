package engine

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestSuspectsRunApart: of the suspects of a process one at a time has a slot, in the order in which they came,
// whatever partition and queue they are of. What is not suspected goes on beside them.
func TestSuspectsRunApart(t *testing.T) {
	m := NewMatcher()
	m.Add("w", newFakeWorkers(3))
	var woken []string
	parts := make([]tasks, 3)
	for i := range parts {
		name := string(rune('a' + i))
		parts[i] = newTasks(m, func(queue, _ string) { woken = append(woken, name+" "+queue) })
	}
	apart := func(queue string) queueKey { return queueKey{queue, "t", true} }
	take := func(i int, key queueKey, want bool) {
		t.Helper()
		p := &parts[i]
		if got := p.reserve(p.queue(key)); got != want {
			t.Fatalf("partition %d takes a slot for %v: %t", i, key, got)
		}
		p.hold(core.Token{Step: core.StepID(i), Attempt: len(key.queue)})
	}
	release := func(i int, queue string) { parts[i].release(core.Token{Step: core.StepID(i), Attempt: len(queue)}) }
	take(0, apart("one"), true)
	take(1, apart("one"), false)
	take(2, apart("three"), false)
	take(1, queueKey{queue: "others", taskType: "t"}, true)
	release(0, "one")
	if len(woken) != 1 || woken[0] != "b one" {
		t.Fatalf("called were %q; the first that waits is b", woken)
	}
	take(2, apart("three"), false) // b came before
	take(1, apart("one"), true)
	take(2, apart("three"), false)
	parts[1].close() // its partition is of no more use
	if woken = slices.Compact(woken[1:]); len(woken) != 1 || woken[0] != "c three" {
		t.Fatalf("called were %q; the next one is c", woken)
	}
	take(2, apart("three"), true)
}

// TestSuspectsHaveTheirTurn: a suspect that waits for the only slot of its queue gets it when it is free, though others
// of the queue wait as well. A suspect for whose queue no slot is free holds up no other.
func TestSuspectsHaveTheirTurn(t *testing.T) {
	m := NewMatcher()
	m.Add("w", newFakeWorkers(1))
	a, b := newTasks(m, func(string, string) {}), newTasks(m, func(string, string) {})
	plain, apart, other := queueKey{"q", "t", false}, queueKey{"q", "t", true}, queueKey{"elsewhere", "t", true}
	if !a.reserve(a.queue(plain)) {
		t.Fatal("the only slot is not free")
	}
	a.hold(core.Token{Attempt: 1})
	if b.reserve(b.queue(apart)) || a.reserve(a.queue(plain)) {
		t.Fatal("a slot was given twice")
	}
	if !b.reserve(b.queue(other)) {
		t.Fatal("a suspect of another queue waits for one whose queue is busy")
	}
	b.hold(core.Token{Attempt: 2})
	b.release(core.Token{Attempt: 2})
	a.release(core.Token{Attempt: 1})
	if a.reserve(a.queue(plain)) {
		t.Fatal("the suspect, which waits, was passed over")
	}
	if !b.reserve(b.queue(apart)) {
		t.Fatal("the suspect does not get the free slot")
	}
	b.hold(core.Token{Attempt: 3})
	b.release(core.Token{Attempt: 3})
	if !a.reserve(a.queue(plain)) {
		t.Fatal("the slot is free, and no suspect waits")
	}
}
