package engine

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

func TestSlotsFirstComeFirstServed(t *testing.T) {
	r := newRig(t, 1)
	urgent := task()
	urgent.Priority = 5
	var ids []core.RunID
	for i := range 4 {
		p := flow("one", task())
		if i == 3 {
			p = flow("urgent", urgent)
		}
		ids = append(ids, r.start(p))
		r.settle()
	}
	want := []core.RunID{ids[0], ids[3], ids[1], ids[2]}
	for i, id := range want {
		got := r.workers.dispatched()
		if len(got) != 1 || got[0].Token.Run != id {
			t.Fatalf("task %d: %v, want one of run %s", i, got, id)
		}
		if n := r.p.Stats(); n.Live != 1 || n.Queued != 3-i {
			t.Fatalf("task %d: %+v", i, n)
		}
		r.p.Report(id, succeed(got[0]), r.now)
		r.settle()
	}
	for _, id := range ids {
		r.wantPhase(id, core.RunSucceeded)
	}
}

// TestSlotsAndDeadlines checks that a step that backs off uses no slot. An attempt whose deadline comes while it waits
// for a slot is withdrawn and never executes.
func TestSlotsAndDeadlines(t *testing.T) {
	r := newRig(t, 1)
	holder := r.start(flow("retry", task().tries(2, time.Hour)))
	r.settle()
	late := task()
	late.Queued = time.Minute
	waiter := r.start(flow("late", late))
	r.settle()
	first := r.workers.dispatched()[0]
	r.pass(2 * time.Minute)
	r.wantPhase(waiter, core.RunFailed)
	if got := r.workers.dispatched(); len(got) != 0 {
		t.Fatalf("an attempt was picked up after its deadline: %v", got)
	}
	r.p.Report(holder, failTask(first), r.now)
	third := r.start(flow("one", task()))
	r.settle()
	if got := r.workers.dispatched(); len(got) != 1 || got[0].Token.Run != third {
		t.Fatalf("the slot of a step that backs off is not free: %v", got)
	}
}

// TestExpiredAttemptHoldsItsSlot checks that an expired attempt uses its slot until its work has stopped.
func TestExpiredAttemptHoldsItsSlot(t *testing.T) {
	r := newRig(t, 1)
	slow := task()
	slow.Timeout = time.Second
	var stopped []report
	r.workers.report = func(id core.RunID, in core.Input) { stopped = append(stopped, report{id, in}) }
	id := r.start(flow("slow", slow))
	next := r.start(flow("one", task()))
	r.pass(10 * time.Second)
	if len(stopped) != 1 || r.p.Stats().Live != 1 {
		t.Fatalf("revoked %d, %+v", len(stopped), r.p.Stats())
	}
	r.workers.dispatched()
	r.p.Report(id, stopped[0].in, r.now)
	r.settle()
	if got := r.workers.dispatched(); len(got) != 1 || got[0].Token.Run != next {
		t.Fatalf("after the stop: %v", got)
	}
	r.wantPhase(id, core.RunFailed)
}

func TestRematch(t *testing.T) {
	r := newRig(t, 0)
	r.start(flow("one", task()))
	r.pass(time.Minute)
	if r.p.Stats().Queued != 1 {
		t.Fatalf("%+v", r.p.Stats())
	}
	r.workers.slots = 1
	r.p.Rematch(r.now)
	r.settle()
	if len(r.workers.dispatched()) != 1 {
		t.Fatal("new workers were not asked")
	}
}
