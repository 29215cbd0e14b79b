package engine

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/policy"
)

// suspectRig is a process with several partitions whose suspects share the slots of its workers.
type suspectRig struct {
	t       *testing.T
	workers *fakeWorkers
	parts   []tasks
	woken   []string
	count   int
}

func newSuspectRig(t *testing.T, size, partitions int) *suspectRig {
	m := slots.NewMatcher()
	s := &suspectRig{t: t, workers: newFakeWorkers(size), parts: make([]tasks, partitions)}
	m.Add("w", s.workers)
	for i := range s.parts {
		name := string(rune('a' + i))
		wake := func(queue, _ string) { s.woken = append(s.woken, name+" "+queue) }
		s.parts[i] = newTasks(&base{cfg: Config{Matcher: m, Wake: wake}}, heart{})
	}
	return s
}

// take makes a partition take a slot for the next attempt of a queue. It returns the attempt.
func (s *suspectRig) take(part int, queue string, group int, want bool) core.Token {
	s.t.Helper()
	p := &s.parts[part]
	if got := p.reserve(p.queue(slots.Key{Queue: queue, Type: "t", Group: group})); got != want {
		s.t.Fatalf("partition %d takes a slot of queue %s in a group of %d: %t", part, queue, group, got)
	}
	s.count++
	tok := core.Token{Attempt: s.count}
	p.hold(tok)
	return tok
}

// wantWoken checks which partitions were woken since the last call.
func (s *suspectRig) wantWoken(want ...string) {
	s.t.Helper()
	if got := slices.Compact(s.woken); !slices.Equal(got, want) {
		s.t.Fatalf("woken were %q, want %q", got, want)
	}
	s.woken = nil
}

// TestSuspectsRunApart checks that suspects of a process that must run alone get a slot one at a time, in the order in
// which they came, whatever their partition and queue. Other attempts go on beside them.
func TestSuspectsRunApart(t *testing.T) {
	s := newSuspectRig(t, 3, 3)
	first := s.take(0, "one", 1, true)
	s.take(1, "one", 1, false)
	s.take(2, "three", 1, false)
	s.take(1, "others", 0, true)
	s.parts[0].release(first)
	s.wantWoken("b one") // the first that waits
	s.take(2, "three", 1, false)
	s.take(1, "one", 1, true)
	s.take(2, "three", 1, false)
	s.parts[1].close() // its partition is of no more use
	s.wantWoken("c three")
	s.take(2, "three", 1, true)
}

// TestSuspectsHaveTheirTurn checks that a suspect that waits for the only slot of its queue gets it when it is free,
// though others of the queue wait as well. A suspect for whose queue no slot is free holds up no other.
func TestSuspectsHaveTheirTurn(t *testing.T) {
	s := newSuspectRig(t, 1, 2)
	plain := s.take(0, "q", 0, true)
	s.take(1, "q", 1, false)
	s.take(0, "q", 0, false)
	s.parts[1].release(s.take(1, "elsewhere", 1, true))
	s.parts[0].release(plain)
	s.take(0, "q", 0, false) // the suspect goes first
	s.parts[1].release(s.take(1, "q", 1, true))
	s.take(0, "q", 0, true)
}

// TestSuspectsRunInGroups checks that so many suspects have slots at once as their group holds, from whatever partition
// they are, and only those of one size.
func TestSuspectsRunInGroups(t *testing.T) {
	s := newSuspectRig(t, 100, 3)
	s.take(1, "q", 4, true)
	s.take(2, "q", 1, false)
	s.take(0, "q", 16, false)
	var four []core.Token
	for range 3 {
		four = append(four, s.take(0, "q", 4, true))
	}
	s.take(0, "q", 4, false)
	s.wantWoken()

	// The suspects that wait have their turn before the group is filled again.
	for i, tok := range four {
		s.parts[0].release(tok)
		s.take(0, "q", 4, false)
		s.take(2, "q", 1, false)
		s.wantWoken()
		if i == 1 {
			s.take(1, "q", 4, false)
		}
	}
	s.parts[1].close()
	s.wantWoken("c q")
	alone := s.take(2, "q", 1, true)
	s.take(0, "q", 16, false)
	s.parts[2].release(alone)
	s.wantWoken("a q")
	s.take(0, "q", 16, true)
	s.take(0, "q", 4, false)
}

// TestSuspectsRefillTheirGroup checks that while only suspects of one size wait, the next one begins when one has
// ended. A partition that may take a slot as well is woken.
func TestSuspectsRefillTheirGroup(t *testing.T) {
	s := newSuspectRig(t, 100, 2)
	alone := s.take(0, "q", 1, true)
	s.take(1, "q", 4, false)
	s.take(0, "q", 4, false)
	s.parts[0].release(alone)
	s.wantWoken("b q")
	s.take(1, "q", 4, true)
	s.wantWoken("a q")
	for range 3 {
		s.take(0, "q", 4, true)
	}
	for range 20 {
		s.take(0, "q", 4, false)
		s.parts[0].release(core.Token{Attempt: s.count - 1})
		s.take(0, "q", 4, true)
	}
}

// TestSuspectsWithoutWorkers checks that suspects for which there are no workers hold up no group.
func TestSuspectsWithoutWorkers(t *testing.T) {
	s := newSuspectRig(t, 100, 2)
	s.workers.none = "none"
	p := &s.parts[1]
	if p.reserve(p.queue(slots.Key{Queue: "q", Type: "none", Group: 1})) {
		t.Fatal("a slot of no worker was taken")
	}
	for range 5 {
		var four []core.Token
		for range 4 {
			four = append(four, s.take(0, "q", 4, true))
		}
		s.parts[0].release(four[0])
		s.take(0, "q", 4, true)
		s.parts[0].close()
	}
}

// TestOneKillerAmongMany checks that 280 steps run beside one that kills its process. After nine deaths it is stopped.
// All others succeed, and need far less time than one after the other.
func TestOneKillerAmongMany(t *testing.T) {
	const others, takes, killsAfter = 280, 750 * time.Millisecond, 300 * time.Millisecond
	r := newRig(t, -1)
	var runs []core.RunID
	for range others + 1 {
		runs = append(runs, r.start(flow("one", task())))
	}
	killer := runs[others/2]
	deaths, done := 0, core.Time(0)
	ends := map[core.Token]core.Time{}
	for range 100_000 {
		r.settle()
		for _, task := range r.workers.dispatched() {
			if task.Announce {
				r.p.Report(task.Token.Run, core.Beat{Step: task.Token.Step, Attempt: task.Token.Attempt}, r.now)
			}
			ends[task.Token] = r.now.Add(takes)
			if task.Token.Run == killer {
				ends[task.Token] = r.now.Add(killsAfter)
			}
		}
		r.settle()
		next := r.p.Next()
		for _, at := range ends {
			next = earliest(next, at)
		}
		if next == 0 {
			break
		}
		r.now = max(r.now, next)
		for _, tok := range slices.SortedFunc(maps.Keys(ends), func(a, b core.Token) int {
			return bytes.Compare(a.Run[:], b.Run[:])
		}) {
			if ends[tok] > r.now {
				continue
			}
			if tok.Run == killer {
				deaths++
				clear(ends)
				r.restart()
				break
			}
			delete(ends, tok)
			done = r.now
			r.p.Report(tok.Run, core.TaskEnded{Step: tok.Step, Attempt: tok.Attempt}, r.now)
		}
	}
	for _, id := range runs {
		want := core.RunSucceeded
		if id == killer {
			want = core.RunFailed
		}
		r.wantPhase(id, want)
	}
	if deaths != 9 {
		t.Errorf("the process died %d times, want 9", deaths)
	}
	if took := done.Sub(epoch); took > 30*time.Second {
		t.Errorf("the last of the others ended after %s; one after the other they need %s", took, others*takes)
	}
}

// TestKeptSuspectsCount checks that a suspect that a remote worker has since before the engine was opened is among
// those that run.
func TestKeptSuspectsCount(t *testing.T) {
	r := newRig(t, 8)
	workers := &remoteFake{fakeWorkers: r.workers}
	r.open(workers, nil)
	ids := []core.RunID{r.start(flow("a", task())), r.start(flow("b", task()))}
	lose := func(id core.RunID, attempt int) {
		lost := &policy.Failure{Kind: policy.KindLost, Type: "worker_silent"}
		r.inbox = append(r.inbox, report{id, core.TaskEnded{Step: 0, Attempt: attempt, Failure: lost}})
		r.pass(10 * time.Second)
	}
	running := func() (n int) {
		for _, id := range ids {
			if r.state(id).Steps[0].Phase == core.StepRunning {
				n++
			}
		}
		return n
	}
	for attempt := 1; attempt <= 3; attempt++ {
		lose(ids[0], attempt)
		lose(ids[1], attempt)
	}
	lose(ids[0], 4) // it runs alone from now on, as soon as the other has ended
	lose(ids[1], 4)
	if n := running(); n != 1 {
		t.Fatalf("%d suspects run that run alone", n)
	}
	first := ids[0]
	if r.state(first).Steps[0].Phase != core.StepRunning {
		first = ids[1]
	}
	r.inbox = append(r.inbox, report{first, core.Beat{Step: 0, Attempt: 5, At: r.now}}) // it has begun
	r.settle()
	r.open(workers, nil)
	r.pass(time.Minute)
	if n := running(); n != 1 || r.state(first).Steps[0].Phase != core.StepRunning {
		t.Errorf("%d suspects run after the engine was opened, the first is %s", n, r.state(first).Steps[0].Phase)
	}
	r.inbox = append(r.inbox, report{first, core.TaskEnded{Step: 0, Attempt: 5}})
	r.pass(time.Minute)
	r.wantPhase(first, core.RunSucceeded)
	if n := running(); n != 1 {
		t.Errorf("%d suspects run after the first has ended", n)
	}
}

// TestKeptSuspectsOfSeveralGroups checks that nobody joins suspects of several sizes, which several processes had. When
// they have ended, the next group begins.
func TestKeptSuspectsOfSeveralGroups(t *testing.T) {
	s := newSuspectRig(t, 100, 1)
	m := s.parts[0].matcher
	four, alone := slots.Key{Queue: "q", Type: "t", Group: 4}, slots.Key{Queue: "q", Type: "t", Group: 1}
	taken, ok := m.Take(s.parts[0].client, four.Ordinary())
	if !ok {
		t.Fatal("there is no slot")
	}
	m.Release(s.parts[0].client, taken)
	m.Keep(four)
	m.Keep(alone)
	s.take(0, "q", 4, false)
	m.Release(nil, slots.Slot{Of: taken.Of, Key: alone})
	s.take(0, "q", 4, false)
	m.Release(nil, slots.Slot{Of: taken.Of, Key: four})
	s.take(0, "q", 4, true)
	s.take(0, "q", 4, true)
}
