package engine

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestLookingAtARunThatRests: a run that nobody carries on stays as it is when somebody looks at it or sends it an
// event. Its attempts, whose process has died, are taken for lost once it is carried on.
func TestLookingAtARunThatRests(t *testing.T) {
	r := newRig(t, 1)
	id := r.start(flow("rests", task().tries(3, 0)))
	r.settle()
	r.journal, r.inbox = r.journal.Reopen(), nil
	r.workers.dispatched()
	cfg := r.config()
	cfg.Carried = NewCarried()
	r.p = NewPartition(cfg)
	if err := r.p.Open(t.Context(), r.now); err != nil {
		t.Fatal(err)
	}
	r.settle()
	entries := func() int {
		n := len(r.history(id))
		r.settle()
		return n
	}
	seen := entries()
	if state := r.state(id); state.Seq != seen || state.Steps[0].Phase != core.StepRunning {
		t.Errorf("looking at the run changes it: %d entries, its step is %s", seen, state.Steps[0].Phase)
	}
	r.call(&Call{Op: CallInput, Run: id, Input: core.SignalReceived{Name: "go"}})
	r.settle()
	s := &r.state(id).Steps[0]
	if got := entries(); got != seen+1 || s.Phase != core.StepRunning || s.Attempt != 1 {
		t.Errorf("after an event the run has %d entries more, and its step is %s in attempt %d", got-seen, s.Phase,
			s.Attempt)
	}
	cfg.Carried.Add(id)
	r.workers.act = succeed
	r.p.Rematch(r.now)
	r.settle()
	r.wantPhase(id, core.RunSucceeded)
	if s := &r.state(id).Steps[0]; s.Attempt != 2 {
		t.Errorf("the step ended in attempt %d", s.Attempt)
	}
}

// TestSetAsideRunThatRests: the rows of a run that was set aside are written again by the next owner that can read it,
// also if the run rests there. Else what happens to it there would hide that its steps are missing in the view.
func TestSetAsideRunThatRests(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	at := &plantedPanic{"decide", 1_000_000}
	r.trap = at.trap
	r.restart()
	id := r.start(flow("bad", task(), event("go")))
	at.from = 1
	r.settle() // the code panics when the first step has ended
	r.pass(time.Minute)
	if r.p.SetAside(id) == nil {
		t.Fatal("the run is not set aside")
	}
	r.trap = nil
	r.journal, r.inbox = r.journal.Reopen(), nil
	cfg := r.config()
	cfg.Carried = NewCarried()
	r.p = NewPartition(cfg)
	if err := r.p.Open(t.Context(), r.now); err != nil {
		t.Fatal(err)
	}
	r.settle()
	r.call(&Call{Op: CallInput, Run: id, Input: core.SignalReceived{Name: "x"}})
	r.pass(time.Minute)
	if rows := r.journal.Steps(id); len(rows) != len(r.state(id).Steps) || rows[0].Phase != r.state(id).Steps[0].Phase {
		t.Errorf("the view has the steps %+v", rows)
	}
}
