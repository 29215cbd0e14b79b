package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// instantRig returns a rig whose workers do the tasks of flows on the spot.
func instantRig(t testing.TB) *rig {
	r := newRig(t, -1)
	r.workers.act, r.workers.instant = succeed, task().Type
	return r
}

// TestInstantTasksNeedOneCommit checks that a flow of tasks that take no time is one batch: its start, all attempts,
// its end. It is the same history as that of other tasks.
func TestInstantTasksNeedOneCommit(t *testing.T) {
	slow, r := newRig(t, -1), instantRig(t)
	slow.workers.act = succeed
	p := flow("three", task(), task(), task())
	want := slow.start(p)
	slow.settle()

	id := r.start(p)
	if !r.commit() {
		t.Fatal("there is nothing to commit")
	}
	if r.p.pipeline.open.entries != 0 || r.workers.did != 3 || len(r.workers.dispatched()) != 0 {
		t.Fatalf("after one commit: %d entries are left, %d tasks were done on the spot", r.p.pipeline.open.entries,
			r.workers.did)
	}
	if st := r.p.Stats(); st.Live != 0 || st.Queued != 0 {
		t.Fatalf("attempts are left: %+v", st)
	}
	r.wantPhase(id, core.RunSucceeded)
	if a, b := kindsOf(slow.history(want)), kindsOf(r.history(id)); !slices.Equal(a, b) {
		t.Fatalf("the history is\n%v, and with other tasks\n%v", b, a)
	}
}

// kindsOf lists the records of a history.
func kindsOf(entries []core.Entry) (kinds []string) {
	for i := range entries {
		for _, rec := range entries[i].Records {
			kinds = append(kinds, fmt.Sprintf("%T", rec))
		}
	}
	return kinds
}

// TestInstantTasksOfALostBatch checks that if the batch is not saved, nothing of the run has happened.
func TestInstantTasksOfALostBatch(t *testing.T) {
	r := instantRig(t)
	req := StartRequest{Definition: flow("one", task()).definition(), Start: core.Start{WorkflowID: "w"}}
	answer := ask(r, &StartCall{Start: req})
	r.p.Cut(r.now)
	r.restart()
	if _, err := r.journal.History(context.Background(), answer.Answer.Run); err == nil {
		t.Fatal("there is a history of a run that was not saved")
	}
	id := r.start(flow("one", task()), func(s *StartRequest) { s.WorkflowID = "w" })
	r.settle()
	r.wantPhase(id, core.RunSucceeded)
	if r.workers.did != 2 {
		t.Fatalf("%d tasks were done, want 2", r.workers.did)
	}
}

// TestInstantTasksLeaveTimeForOthers checks that only so many attempts join the batch of one input. Those after them
// wait for their start to be durable.
func TestInstantTasksLeaveTimeForOthers(t *testing.T) {
	r := instantRig(t)
	steps := make([]planStep, 0, mostInstants+3)
	for range mostInstants + 3 {
		steps = append(steps, task())
	}
	id := r.start(flow("long", steps...))
	r.commit()
	if n := len(r.workers.dispatched()); r.workers.did != mostInstants || n != 1 {
		t.Fatalf("%d attempts ended on the spot and %d were handed over, want %d and 1", r.workers.did, n, mostInstants)
	}
	r.settle()
	r.wantPhase(id, core.RunSucceeded)
	other := r.start(flow("one", task()))
	r.commit()
	if n := len(r.workers.dispatched()); n != 0 {
		t.Fatalf("an attempt of the next input was handed over (%d): the count goes on", n)
	}
	r.wantPhase(other, core.RunSucceeded)
}

// TestInstantTasksLeaveRoomInTheBatch checks that no more attempts end on the spot once the open batch is full:
// otherwise many runs that are due together could make it many times as large as a batch may be.
func TestInstantTasksLeaveRoomInTheBatch(t *testing.T) {
	r := instantRig(t)
	const runs, inflight = 20, 100
	r.p.cfg.Inflight = inflight
	steps := []planStep{nap(time.Hour)}
	for range mostInstants {
		steps = append(steps, task())
	}
	var last core.RunID
	for range runs {
		last = r.start(flow("due together", steps...))
		r.settle()
	}
	r.now = r.now.Add(time.Hour)
	r.p.Refill(r.now)
	r.p.Tick(r.now)
	if n, most := r.p.Pending(), inflight+3*runs; n < inflight || n > most {
		t.Errorf("the open batch has %d entries, want %d to %d", n, inflight, most)
	}
	r.settle()
	r.wantPhase(last, core.RunSucceeded)
}

// TestInstantTasksWithTooLargeOutputs checks that an output that is too large makes an attempt on the spot fail, as it
// does all others.
func TestInstantTasksWithTooLargeOutputs(t *testing.T) {
	r := instantRig(t)
	r.p.cfg.MaxPayload = 10
	r.workers.act = func(k core.Task) core.Input {
		return core.TaskEnded{Step: k.Token.Step, Attempt: k.Token.Attempt, Output: []byte(`"0123456789"`)}
	}
	id := r.start(flow("one", task()))
	r.settle()
	out, ended := r.outcome(id)
	if !ended || out.Phase != core.RunFailed || out.Failure.Type != "output_too_large" {
		t.Errorf("ended: %v, %+v", ended, out)
	}
}

// TestRecentOutcomes checks that who asks for the result of a short run gets it though the run has left memory.
func TestRecentOutcomes(t *testing.T) {
	r := instantRig(t)
	id := r.start(flow("one", task()))
	r.pass(recentAge / 2)
	if r.p.Stats().Loaded != 0 {
		t.Fatal("the run is still in memory")
	}
	result := func() (got Result, answered bool) {
		c := &ResultCall{Run: id, Waiter: NewWaiter()}
		c.Done = func(error) { answered = true }
		return ask(r, c).Answer, answered
	}
	absent := func() bool {
		got, _ := result()
		return got.Absent != core.RunID{}
	}
	got, answered := result()
	if !answered || absent() || got.Outcome.Phase != core.RunSucceeded || got.Outcome.Run != id {
		t.Fatalf("answered: %v, %+v", answered, got)
	}
	r.pass(recentAge)
	if !absent() {
		t.Fatal("it is known long after its end")
	}
	id = r.start(flow("one", task()))
	r.pass(recentAge / 2)
	if _, answered = result(); !answered || r.p.Stats().Loaded != 0 {
		t.Fatal("the outcome of the second run is not known")
	}
	r.p.residents.recent.forget()
	if !absent() {
		t.Fatal("it is known after old runs were removed")
	}
}

// TestRecentOutcomesAreTheLast checks that a run that ends otherwise after it left memory has its new outcome.
func TestRecentOutcomesAreTheLast(t *testing.T) {
	var k recent
	ended := func(i int, phase core.RunPhase, output string) *core.Run {
		s := core.NewRun(core.NewRunID(epoch, 0, 0, uint64(i)))
		s.Phase, s.Output = phase, []byte(output)
		return s
	}
	k.left(ended(1, core.RunSucceeded, "1"))
	k.left(ended(1, core.RunSucceeded, "2"))
	id := ended(1, 0, "").ID
	if got := string(k.outcomes[id].Output); got != "2" {
		t.Fatalf("the outcome is %q, want the last one", got)
	}
	k.left(ended(1, core.RunFailed, ""))
	if len(k.outcomes) != 0 {
		t.Fatal("the outcome of an earlier end is kept")
	}
	k.left(ended(2, core.RunSucceeded, string(make([]byte, recentOutput+1))))
	if len(k.outcomes) != 0 {
		t.Fatal("a large output is kept")
	}
	for i := range 2 * mostRecent {
		k.left(ended(10+i, core.RunSucceeded, ""))
		k.left(ended(10+i, core.RunSucceeded, ""))
	}
	if n := len(k.outcomes); n > mostRecent || n < mostRecent-1 || len(k.order) != mostRecent {
		t.Fatalf("%d outcomes are kept, want %d", n, mostRecent)
	}
	if _, ok := k.outcomes[ended(9+2*mostRecent, 0, "").ID]; !ok {
		t.Fatal("the newest is missing")
	}
}
