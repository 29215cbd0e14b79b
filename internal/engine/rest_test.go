package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/policy"
)

// TestLookingAtARunThatRests checks that a run that nobody carries on stays as it is when somebody looks at it or sends
// it an event. Its attempts, whose process has died, are taken for lost once it is carried on.
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
	ask(r, &InputCall{Run: id, Input: core.SignalReceived{Name: "go"}})
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

// TestSetAsideRunThatRests checks that the rows of a run that was set aside are written again by the next owner that
// can read it, also if the run rests there. Else what happens to it there would hide that its steps are missing in the
// view.
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
	ask(r, &InputCall{Run: id, Input: core.SignalReceived{Name: "x"}})
	r.pass(time.Minute)
	if rows := r.journal.Steps(id); len(rows) != len(r.state(id).Steps) || rows[0].Phase != r.state(id).Steps[0].Phase {
		t.Errorf("the view has the steps %+v", rows)
	}
}

// remoteFake are fakeWorkers in another process.
type remoteFake struct {
	*fakeWorkers
	queues  []string // those that it serves; nil: all
	kept    []core.Token
	stopped []core.Token
}

func (w *remoteFake) Reserve(string, string) slots.Seat {
	return slots.Seat{Worker: "remote", Secret: 7}
}
func (w *remoteFake) Return(slots.Seat) {}
func (w *remoteFake) Serves(queue string) bool {
	return w.queues == nil || slices.Contains(w.queues, queue)
}
func (w *remoteFake) Has(tok core.Token) bool { return slices.Contains(w.kept, tok) }
func (w *remoteFake) Keep(t core.Task)        { w.kept = append(w.kept, t.Token) }

// Revoke tells that the work of an attempt that nobody knows has stopped. What goes on stops later.
func (w *remoteFake) Revoke(tok core.Token, why policy.Kind) {
	if slices.Contains(w.kept, tok) {
		w.stopped = append(w.stopped, tok)
		return
	}
	w.fakeWorkers.Revoke(tok, why)
}

// open opens the partition again, with these workers of other processes.
func (r *rig) open(workers slots.RemoteWorkers, carried *Carried) {
	r.t.Helper()
	r.openWith(carried, workers)
}

// openWith opens the partition again, with several sets of workers of other processes.
func (r *rig) openWith(carried *Carried, sets ...slots.RemoteWorkers) {
	r.t.Helper()
	r.journal, r.inbox = r.journal.Reopen(), nil
	cfg := r.config()
	cfg.Workers, cfg.Carried, cfg.Matcher = nil, carried, slots.NewMatcher()
	for _, workers := range sets {
		cfg.Matcher.AddRemote("", workers)
	}
	r.p = NewPartition(cfg)
	if err := r.p.Open(r.t.Context(), r.now); err != nil {
		r.t.Fatal(err)
	}
}

// TestRemoteWorkOfARunThatRests checks that an attempt at a remote worker is over when that worker has stopped, not
// before: an operator completes the step while the run rests and the worker has executed it since before the engine was
// opened. Otherwise another attempt, after a retry, could begin beside it.
func TestRemoteWorkOfARunThatRests(t *testing.T) {
	r := newRig(t, 1)
	workers := &remoteFake{fakeWorkers: r.workers}
	r.open(workers, nil)
	id := r.start(flow("rests", task()))
	r.settle()
	tok := core.Token{Run: id, Step: 0, Attempt: 1}
	if tasks := workers.dispatched(); len(tasks) != 1 || tasks[0].Token != tok {
		t.Fatalf("the remote worker has %+v", tasks)
	}
	carried := NewCarried()
	r.open(workers, carried)
	r.settle()
	done := ask(r, &InputCall{Run: id, Input: core.Operation{Op: core.OpComplete, Step: 0}})
	r.settle()
	if done.Err != nil {
		t.Fatal(done.Err)
	}
	if !slices.Equal(workers.kept, []core.Token{tok}) || !slices.Equal(workers.stopped, []core.Token{tok}) {
		t.Errorf("the workers were asked about %v and told to stop %v", workers.kept, workers.stopped)
	}
	if s := &r.state(id).Steps[0]; s.Phase != core.StepSucceeded || !s.Stopping {
		t.Errorf("the step is %s, stopping: %v; its worker has not stopped", s.Phase, s.Stopping)
	}
	r.inbox = append(r.inbox, report{id, core.TaskStopped{Step: 0, Attempt: 1}})
	r.settle()
	carried.Add(id)
	r.p.Rematch(r.now)
	r.settle()
	if n := len(workers.kept); n != 1 || r.state(id).Steps[0].Stopping {
		t.Errorf("the workers were asked %d times, stopping: %v", n, r.state(id).Steps[0].Stopping)
	}
	r.wantPhase(id, core.RunSucceeded)
}
