package engine

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// waiting returns a limiter in which so many tickets of one key wait for a place where keys take turns. One has it.
func waiting(n int) (*limiter, *limitedKey, []*ticket) {
	l := newLimiter()
	c := &matcherClient{wake: func(string, string) {}}
	limits := &policy.QueueLimits{Concurrency: 1, Fair: true}
	at := place{name: "work"}
	var all []*ticket
	for i := range n + 1 {
		t := &ticket{token: core.Token{Run: core.RunID{byte(i), byte(i >> 8), byte(i >> 16)}, Step: 1}, client: c}
		l.ticket(t, "key", []bound{{place: at, limits: limits}}, core.Held{}, 0, 1)
		l.start(t, 1)
		all = append(all, t)
	}
	return l, l.places[at].keys["key"], all[1:]
}

// TestManyLeaveALine checks that thousands of runs that are cancelled while they wait must not stop everything that
// asks the limiter meanwhile.
func TestManyLeaveALine(t *testing.T) {
	const n = 1 << 13
	l, key, tickets := waiting(n)
	compared := 0
	key.ages.compare = func(a, b *ticket) int {
		compared++
		return a.compare(b)
	}
	key.rounds.compare = func(a, b uint64) int {
		compared++
		return cmp.Compare(a, b)
	}
	for _, one := range tickets {
		l.leave(one, 2)
	}
	if most := n * 10 * bits.Len(n); compared > most {
		t.Errorf("%d comparisons while %d tickets left, want at most %d", compared, n, most)
	}
	if key.line.Len() > 0 || key.ages.len() > 0 || key.rounds.len() > 0 || key.round != 1 {
		t.Errorf("%d in line, %d ages, %d rounds, the last round is %d; want none, and the round of the one that runs",
			key.line.Len(), key.ages.len(), key.rounds.len(), key.round)
	}
}

func BenchmarkLeaveALine(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l, _, tickets := waiting(16_000)
		b.StartTimer()
		for _, one := range tickets {
			l.leave(one, 2)
		}
	}
}

// TestTurnsOfWhatLeaves checks that the turns of tickets that leave go to the others of their key, whatever their
// priority, and none is kept for tickets that come later.
func TestTurnsOfWhatLeaves(t *testing.T) {
	l := newLimiter()
	c := &matcherClient{wake: func(string, string) {}}
	limits := &policy.QueueLimits{Concurrency: 1, Fair: true}
	names := map[*ticket]string{}
	come := func(name, key string, priority int32) *ticket {
		one := &ticket{token: core.Token{Step: 1}, client: c, prio: priority}
		names[one] = name
		l.ticket(one, key, []bound{{place: place{name: "work"}, limits: limits}}, core.Held{}, 0, 1)
		l.start(one, 1)
		return one
	}
	running := come("first", "x", 0)
	var a []*ticket
	for i := range 6 {
		a = append(a, come(fmt.Sprint("a", i), "a", 0))
	}
	come("b0", "b", 0)
	come("urgent", "a", 1)
	come("b1", "b", 0)
	come("b2", "b", 0)
	for _, gone := range []int{0, 1, 3, 5} {
		l.leave(a[gone], 2)
	}
	come("a6", "a", 0)
	var order []string
	for running != nil {
		l.leave(running, 3)
		running = nil
		if turns := l.turns(c); len(turns) > 0 {
			running = turns[0]
			order = append(order, names[running])
			if _, ok := l.start(running, 3); !ok {
				t.Fatalf("%s has its turn and cannot start", names[running])
			}
		}
	}
	want := []string{"urgent", "a2", "b0", "a4", "b1", "b2", "a6"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}
