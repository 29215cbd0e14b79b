package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

func event(name string) planStep { return planStep{Kind: core.KindWait, Event: name} }

// relay returns a chain of runs. Each run takes one event and then fails, so that the next run follows.
func relay(r *rig) plan {
	r.workers.act = failTask
	p := flow("relay", event("go"), task())
	p.Again = 100
	return p
}

// send sends an event and returns the error that the sender gets.
func (r *rig) send(id core.RunID, eventID, payload string) error {
	r.t.Helper()
	in := core.SignalReceived{Name: "go", ID: eventID, Payload: []byte(payload)}
	c := ask(r, &InputCall{Run: id, Input: in})
	r.settle()
	return c.Err
}

// eventsTaken returns the events that the runs of a chain have taken. id is the first run of the chain.
func (r *rig) eventsTaken(id core.RunID) (out []string) {
	r.t.Helper()
	for id != (core.RunID{}) {
		run, err := r.p.get(id)
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range run.state.Steps {
			if s := &run.state.Steps[i]; s.Spec.Kind == core.KindWait && s.Phase == core.StepSucceeded {
				out = append(out, string(s.Output))
			}
		}
		id = run.state.Next
	}
	return out
}

// TestInputForOneRun checks that what is for one run of a chain does not reach the next one.
func TestInputForOneRun(t *testing.T) {
	r := newRig(t, -1)
	first := r.start(relay(r))
	r.settle()
	for i, in := range []core.Input{
		core.SignalReceived{Name: "go", ID: "a", Payload: []byte("1")},
		core.SignalReceived{Name: "go", ID: "b", Payload: []byte("2")},
		core.Operation{Op: core.OpTerminate, Step: core.NoStep},
	} {
		c := ask(r, &InputCall{Run: first, Input: in, Exact: true})
		r.settle()
		if code := CodeOf(c.Err); (i > 0) != (code == CodeRunClosed) {
			t.Errorf("input %d: %v", i, c.Err)
		}
	}
	if got := r.eventsTaken(first); len(got) != 1 || got[0] != "1" {
		t.Errorf("the chain has taken %v", got)
	}
	if last, err := r.p.current(first); err != nil || last.id() == first || last.state.Phase.Closed() {
		t.Errorf("the chain does not go on: %v", err)
	}
}

// TestEventsFollowTheChain sends each event twice to the first run of a chain. The runs of the chain take each event
// once.
func TestEventsFollowTheChain(t *testing.T) {
	r := newRig(t, -1)
	first := r.start(relay(r))
	r.settle()
	for i := range 6 {
		id, payload := fmt.Sprint("e", i), fmt.Sprint(i)
		if err := errors.Join(r.send(first, id, payload), r.send(first, id, payload)); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			r.restart()
		}
	}
	r.pass(time.Minute)
	if err := r.send(first, "e4", "4"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.eventsTaken(first)); got != "[0 1 2 3 4 5]" {
		t.Errorf("the chain took %s, want each event once", got)
	}
}

// TestChainOutlivesItsFirstRuns removes all runs of a chain but the last one. Events, the idempotency key and the
// parent still find that run.
func TestChainOutlivesItsFirstRuns(t *testing.T) {
	r := newRig(t, -1)
	inner := relay(r)
	r.plans["relay"] = inner.definition()
	key := func(s *StartRequest) { s.Key = "k" }
	first := r.start(inner, key)
	outer := r.start(flow("outer", child(payload("relay"))))
	r.settle()
	inside := r.p.residents.runs[outer].state.Steps[0].Child
	for i := range 3 {
		if err := errors.Join(r.send(first, "", fmt.Sprint(i)), r.send(inside, "", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	r.pass(time.Minute)
	old := journal.Old{Before: r.now, Limit: 100}
	if n, err := r.journal.Prune(context.Background(), 0, old); err != nil || n != 6 {
		t.Fatalf("%d runs were removed, %v; want three of each chain", n, err)
	}
	if err := r.send(first, "", "3"); err != nil {
		t.Errorf("an event: %v", err)
	}
	c := ask(r, &StartCall{Start: StartRequest{Definition: inner.definition(), Start: core.Start{Key: "k"}}})
	if c.Err != nil || !c.Answer.Existing {
		t.Errorf("a start with the chain's key: %+v, %v", c.Answer, c.Err)
	}
	ask(r, &InputCall{Run: outer, Input: core.Operation{Op: core.OpCancel, Step: core.NoStep}})
	r.settle()
	r.wantPhase(outer, core.RunCancelled)
}

// TestNotifyAtTheEndOfTheChain checks that the run that a start asked to notify gets one event, at the end of the
// chain. It gets no second one if an operator retries the last run. If the run to notify has ended, nothing happens.
func TestNotifyAtTheEndOfTheChain(t *testing.T) {
	r := newRig(t, -1)
	fails := 2
	r.workers.act = func(c core.Task) core.Input {
		if fails--; fails >= 0 {
			return failTask(c)
		}
		return succeed(c)
	}
	ended := core.SignalEnded("job")
	named := func(id, notify string) func(*StartRequest) {
		return func(s *StartRequest) { s.WorkflowID, s.Notify = id, notify }
	}
	waiting := r.start(flow("waiting", event(ended), event(ended)), named("boss", ""))
	job := flow("job", nap(time.Hour), task())
	job.Again = 2
	first := r.start(job, named("job", "boss"))
	r.pass(90 * time.Minute)
	if n := len(r.eventsTaken(waiting)); n != 0 {
		t.Fatalf("notified %d times although the chain goes on", n)
	}
	r.pass(time.Hour)
	last, err := r.p.current(first)
	if err != nil || last.state.Phase != core.RunFailed || len(r.eventsTaken(waiting)) != 1 {
		t.Fatalf("the last run of the chain is %s, notified %d times, %v",
			last.state.Phase, len(r.eventsTaken(waiting)), err)
	}
	ask(r, &InputCall{Run: last.id(), Input: core.Operation{Op: core.OpRetryRun, Step: core.NoStep}})
	r.pass(time.Hour)
	r.wantPhase(last.id(), core.RunSucceeded)
	if n := len(r.eventsTaken(waiting)); n != 1 {
		t.Errorf("notified %d times of the end of one chain", n)
	}
	ask(r, &InputCall{Run: waiting, Input: core.Operation{Op: core.OpTerminate, Step: core.NoStep}})
	id := r.start(flow("job", task()), named("job", "boss"))
	r.pass(time.Hour)
	r.wantPhase(id, core.RunSucceeded)
}

// TestOperationsFollowTheChain checks that an operation on the whole first run goes to the last run of the chain. A
// retry, and an operation on a step, does not.
func TestOperationsFollowTheChain(t *testing.T) {
	r := newRig(t, -1)
	first := r.start(relay(r))
	r.settle()
	for i := range 3 {
		if err := r.send(first, "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	operate := func(op core.Operation) error {
		c := ask(r, &InputCall{Run: first, Input: op})
		r.settle()
		return c.Err
	}
	last, err := r.p.current(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []core.Op{core.OpPause, core.OpResume, core.OpCancel} {
		if err := operate(core.Operation{Op: op, Step: core.NoStep}); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
	r.wantPhase(last.id(), core.RunCancelled)
	for _, op := range []core.Operation{
		{Op: core.OpRetryRun, Step: core.NoStep}, {Op: core.OpRetryStep, Step: 1}, {Op: core.OpSkip, Step: 0},
	} {
		if err := operate(op); err == nil {
			t.Errorf("%s of the first run was accepted", op.Op)
		}
	}
}
