package limit

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// waiting returns a limiter in which so many tickets of one key wait for a resource where keys take turns. One has it.
func waiting(n int) (*Limiter, *limitedKey, []*Ticket) {
	l := New()
	c := &Client{Wake: func(string, string) {}}
	limits := &policy.QueueLimits{Concurrency: 1, Fair: true}
	at := Resource{Name: "work"}
	var all []*Ticket
	for i := range n + 1 {
		t := &Ticket{Token: core.Token{Run: core.RunID{byte(i), byte(i >> 8), byte(i >> 16)}, Step: 1}, Client: c}
		l.Add(t, "key", []Bound{{Resource: at, Limits: limits}}, core.Held{}, 0, 1)
		l.Start(t, 1)
		all = append(all, t)
	}
	return l, l.resources[at].keys["key"], all[1:]
}

// TestManyLeaveALine checks that thousands of runs that are cancelled while they wait must not stop everything that
// asks the limiter meanwhile.
func TestManyLeaveALine(t *testing.T) {
	const n = 1 << 13
	l, key, tickets := waiting(n)
	compared := 0
	key.ages.compare = func(a, b *Ticket) int {
		compared++
		return a.Compare(b)
	}
	key.rounds.compare = func(a, b uint64) int {
		compared++
		return cmp.Compare(a, b)
	}
	for _, one := range tickets {
		l.Leave(one, 2)
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
			l.Leave(one, 2)
		}
	}
}

// TestTurnsOfWhatLeaves checks that the turns of tickets that leave go to the others of their key, whatever their
// priority, and none is kept for tickets that come later.
func TestTurnsOfWhatLeaves(t *testing.T) {
	l := New()
	c := &Client{Wake: func(string, string) {}}
	limits := &policy.QueueLimits{Concurrency: 1, Fair: true}
	names := map[*Ticket]string{}
	come := func(name, key string, priority int32) *Ticket {
		one := &Ticket{Token: core.Token{Step: 1}, Client: c, Priority: priority}
		names[one] = name
		l.Add(one, key, []Bound{{Resource: Resource{Name: "work"}, Limits: limits}}, core.Held{}, 0, 1)
		l.Start(one, 1)
		return one
	}
	running := come("first", "x", 0)
	var a []*Ticket
	for i := range 6 {
		a = append(a, come(fmt.Sprint("a", i), "a", 0))
	}
	come("b0", "b", 0)
	come("urgent", "a", 1)
	come("b1", "b", 0)
	come("b2", "b", 0)
	for _, gone := range []int{0, 1, 3, 5} {
		l.Leave(a[gone], 2)
	}
	come("a6", "a", 0)
	var order []string
	for running != nil {
		l.Leave(running, 3)
		running = nil
		if turns := l.Turns(c); len(turns) > 0 {
			running = turns[0]
			order = append(order, names[running])
			if _, ok := l.Start(running, 3); !ok {
				t.Fatalf("%s has its turn and cannot start", names[running])
			}
		}
	}
	want := []string{"urgent", "a2", "b0", "a4", "b1", "b2", "a6"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

// TestLine checks that a run that waits knows the runs before it and those that have the places, the first ones by
// name.
func TestLine(t *testing.T) {
	l := New()
	c := &Client{Wake: func(string, string) {}}
	n := byte(0)
	come := func(name, key string, limits policy.QueueLimits, priority int32) *Ticket {
		n++
		one := &Ticket{
			Token: core.Token{Run: core.RunID{n}, Step: core.NoStep}, Client: c, Priority: priority,
			Order: uint64(n), Name: name,
		}
		at := Resource{Runs: true, Name: "heavy"}
		l.Add(one, key, []Bound{{Resource: at, Limits: &limits}}, core.Held{}, 0, 1)
		l.Start(one, 1)
		return one
	}
	says := func(t *Ticket) string {
		line, waits := l.Line(t)
		if !waits {
			return "does not wait"
		}
		out := ""
		for _, some := range []core.SomeRuns{line.Holders, line.Ahead} {
			out += fmt.Sprint(some.N)
			for _, r := range some.Named {
				out += " " + r.WorkflowID
			}
			out += "; "
		}
		return out
	}
	two := policy.QueueLimits{Concurrency: 2}
	a := come("a", "", two, 0)
	come("b", "", two, 0)
	var last *Ticket
	for _, name := range []string{"c", "d", "e", "f", "g"} {
		last = come(name, "", two, 0)
	}
	come("urgent", "", two, 5)
	for ticket, want := range map[*Ticket]string{a: "does not wait", last: "2 a b; 5 urgent c d; "} {
		if got := says(ticket); got != want {
			t.Errorf("%s: %q, want %q", ticket.Name, got, want)
		}
	}
	l.Leave(a, 2)
	if got, want := says(last), "1 b; 5 c d e; "; got != want { // urgent has its turn
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLineOfAKey checks that a run that waits for its key knows the runs of that key alone.
func TestLineOfAKey(t *testing.T) {
	l := New()
	c := &Client{Wake: func(string, string) {}}
	var last *Ticket
	for i, key := range []string{"acme", "globex", "acme", "globex", "acme"} {
		last = &Ticket{
			Token: core.Token{Run: core.RunID{byte(i + 1)}, Step: core.NoStep}, Client: c, Order: uint64(i + 1),
			Name: fmt.Sprint(key, i),
		}
		at := Resource{Runs: true, Name: "heavy"}
		l.Add(last, key, []Bound{{Resource: at, Limits: &policy.QueueLimits{PerKey: 1}}}, core.Held{}, 0, 1)
		l.Start(last, 1)
	}
	line, _ := l.Line(last)
	if line.Holders.N != 1 || line.Holders.Named[0].WorkflowID != "acme0" ||
		line.Ahead.N != 1 || line.Ahead.Named[0].WorkflowID != "acme2" {
		t.Errorf("the line is %+v", line)
	}
}
