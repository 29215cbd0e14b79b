package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// newQueueRig returns a rig whose queue "bills" has limits, with more slots than any test needs.
func newQueueRig(t *testing.T, l policy.QueueLimits) *rig {
	r := newRig(t, 1000)
	r.queues = map[string]policy.QueueLimits{"bills": l}
	r.restart()
	return r
}

// into starts a run into a queue.
func into(q core.RunQueue) func(*StartRequest) {
	return func(req *StartRequest) { req.Queue = q }
}

// bill starts a run of one task into the queue.
func (r *rig) bill(key string, priority int32) core.RunID {
	r.t.Helper()
	id := r.start(flow("bill", task()), into(core.RunQueue{Name: "bills", Key: key, Priority: priority}))
	r.settle()
	r.now++ // so that no two are of the same age
	return id
}

// endOne ends the first of the tasks and returns the others.
func (r *rig) endOne(tasks []core.Task) []core.Task {
	r.end(tasks[0], succeed)
	return tasks[1:]
}

// wantOpen fails the test if the run is not in this phase.
func (r *rig) wantOpen(id core.RunID, want core.RunPhase) {
	r.t.Helper()
	if got := r.state(id).Phase; got != want {
		r.t.Fatalf("run %s is %s, want %s", id, got, want)
	}
}

func (r *rig) wantRunHeld(id core.RunID, want core.Held) {
	r.t.Helper()
	if want.Reason != core.HeldNone {
		want.Name = "bills"
	}
	if got := r.state(id).HeldNow(); got != want {
		r.t.Fatalf("run %s: %+v, want %+v", id, got, want)
	}
}

func TestConcurrencyOfRuns(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 2})
	var ids []core.RunID
	for range 4 {
		ids = append(ids, r.bill("", 0))
	}
	tasks := r.workers.dispatched()
	if len(tasks) != 2 {
		t.Fatalf("%d runs began", len(tasks))
	}
	for _, id := range ids[2:] {
		r.wantOpen(id, core.RunPending)
		r.wantRunHeld(id, core.Held{Reason: core.HeldConcurrency})
	}
	free := r.start(flow("free", task()), into(core.RunQueue{Name: "other"}))
	r.settle()
	wantRuns(t, r.began(), free)
	tasks = r.endOne(tasks)
	wantRuns(t, r.began(), ids[2])
	r.endOne(tasks)
	wantRuns(t, r.began(), ids[3])
}

// TestRunKeepsItsPlace checks that a run keeps its place while it sleeps, also after it could have left memory and
// after a restart.
func TestRunKeepsItsPlace(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	sleeper := r.start(flow("sleeper", nap(24*time.Hour)), into(core.RunQueue{Name: "bills"}))
	waiter := r.bill("", 0)
	r.pass(time.Hour)
	for range 2 {
		r.wantOpen(sleeper, core.RunWaiting)
		r.wantOpen(waiter, core.RunPending)
		r.restart()
		r.pass(time.Hour)
	}
	wantRuns(t, r.began())
	r.pass(24 * time.Hour)
	r.wantPhase(sleeper, core.RunSucceeded)
	wantRuns(t, r.began(), waiter)
}

func TestRateOfRuns(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Rate: policy.Rate{N: 2, Per: time.Minute}})
	var ids []core.RunID
	for range 4 {
		ids = append(ids, r.bill("", 0))
	}
	wantRuns(t, r.began(), ids[:2]...)
	r.wantRunHeld(ids[2], core.Held{Reason: core.HeldRate, Until: epoch.Add(time.Minute)})
	r.pass(time.Minute)
	wantRuns(t, r.began(), ids[2:]...)
}

// TestOrderOfRuns checks that priority comes first, then the turn of the key, then age. A restart changes nothing about
// that.
func TestOrderOfRuns(t *testing.T) {
	for _, fair := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("fair %v, restart %v", fair, restart), func(t *testing.T) {
				r := newQueueRig(t, policy.QueueLimits{Concurrency: 1, Fair: fair})
				r.bill("x", 0)
				tasks := r.workers.dispatched()
				a1, a2, a3 := r.bill("a", 0), r.bill("a", 0), r.bill("a", 0)
				b1, b2 := r.bill("b", 0), r.bill("b", 0)
				urgent := r.bill("a", 5)
				want := []core.RunID{urgent, a1, a2, a3, b1, b2}
				if fair {
					want = []core.RunID{urgent, a1, b1, a2, b2, a3}
				}
				if restart {
					r.restart()
					r.settle()
					tasks = r.workers.dispatched()
				}
				var got []core.RunID
				for len(tasks) > 0 {
					r.end(tasks[0], succeed)
					tasks = r.workers.dispatched()
					for _, task := range tasks {
						got = append(got, task.Token.Run)
					}
				}
				wantRuns(t, got, want...)
			})
		}
	}
}

// TestOrderOfDelayedRuns checks that delayed runs of which several come to their queue at once begin in the order of
// their priority.
func TestOrderOfDelayedRuns(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	at := r.now.Add(time.Hour)
	delayed := func(priority int32) core.RunID {
		return r.start(flow("bill", task()), into(core.RunQueue{Name: "bills", Priority: priority}),
			func(req *StartRequest) { req.At = at })
	}
	delayed(0)
	urgent := delayed(1)
	r.pass(time.Hour)
	wantRuns(t, r.began(), urgent)
}

func TestRunsOfAKey(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{PerKey: 1})
	a1, a2, b1 := r.bill("a", 0), r.bill("a", 0), r.bill("b", 0)
	tasks := r.workers.dispatched()
	if len(tasks) != 2 || tasks[0].Token.Run != a1 || tasks[1].Token.Run != b1 {
		t.Fatalf("%v began", tasks)
	}
	r.wantRunHeld(a2, core.Held{Reason: core.HeldKeyConcurrency, Key: "a"})
	r.endOne(tasks)
	wantRuns(t, r.began(), a2)
}

// TestHeldRunLeavesItsQueue checks that a held run that ends or is paused lets the others pass.
func TestHeldRunLeavesItsQueue(t *testing.T) {
	operate := func(op core.Op) func(r *rig, id core.RunID) {
		return func(r *rig, id core.RunID) {
			c := ask(r, &InputCall{Run: id, Input: core.Operation{Op: op, Step: core.NoStep}})
			if r.settle(); c.Err != nil {
				r.t.Fatal(c.Err)
			}
		}
	}
	for _, op := range []core.Op{core.OpCancelGracefully, core.OpCancel, core.OpTerminate, core.OpPause} {
		t.Run(op.String(), func(t *testing.T) {
			r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
			r.bill("", 0)
			tasks := r.workers.dispatched()
			first, second := r.bill("", 0), r.bill("", 0)
			operate(op)(r, first)
			if phase := r.state(first).Phase; phase.Closed() == (op == core.OpPause) {
				t.Fatalf("it is %s", phase)
			}
			r.endOne(tasks)
			wantRuns(t, r.began(), second)
			if op != core.OpPause {
				return
			}
			operate(core.OpResume)(r, first)
			r.wantRunHeld(first, core.Held{Reason: core.HeldConcurrency})
		})
	}
}

// TestResumedRunKeepsItsAge checks that a run that was paused while it waited has the place of its age when it goes on.
func TestResumedRunKeepsItsAge(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1, Fair: true})
	r.bill("", 0)
	tasks := r.workers.dispatched()
	first, second := r.bill("", 0), r.bill("", 0)
	for _, op := range []core.Op{core.OpPause, core.OpResume} {
		ask(r, &InputCall{Run: first, Input: core.Operation{Op: op, Step: core.NoStep}})
		r.settle()
	}
	r.endOne(tasks)
	wantRuns(t, r.began(), first)
	r.wantOpen(second, core.RunPending)
}

// TestCancelledRunUsesNoTurn checks that a run that waits and is cancelled gives its key's turn to the next run of the
// key: keys whose runs leave do not wait longer for it.
func TestCancelledRunUsesNoTurn(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel []int  // the waiting runs among the three of key a
		more   int    // runs of key a that come after that; where keys have the same turn, the older run goes first
		want   string // the keys of those that wait, in the order in which they begin
	}{
		{"the first one", []int{0}, 0, "ababbb"},
		{"one in the middle", []int{1}, 0, "ababbb"},
		{"the last one", []int{2}, 1, "ababbab"},
		{"all of them", []int{0, 1, 2}, 2, "bababb"},
		{"all of them, from the last one on", []int{2, 1, 0}, 3, "bababab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newQueueRig(t, policy.QueueLimits{Concurrency: 1, Fair: true})
			keys := map[core.RunID]string{}
			bill := func(key string) core.RunID {
				id := r.bill(key, 0)
				keys[id] = key
				return id
			}
			first := r.bill("c", 0)
			var waiting []core.RunID
			for range 3 {
				waiting = append(waiting, bill("a"))
			}
			for range 4 {
				bill("b")
			}
			for _, n := range c.cancel {
				op := core.Operation{Op: core.OpCancelGracefully, Step: core.NoStep}
				if c := ask(r, &InputCall{Run: waiting[n], Input: op}); c.Err != nil {
					t.Fatal(c.Err)
				}
				r.settle()
			}
			for range c.more {
				bill("a")
			}
			tasks := r.workers.dispatched()
			if len(tasks) != 1 || tasks[0].Token.Run != first {
				t.Fatalf("began %v", tasks)
			}
			got := ""
			for len(tasks) > 0 {
				r.end(tasks[0], succeed)
				if tasks = r.workers.dispatched(); len(tasks) > 0 {
					got += keys[tasks[0].Token.Run]
				}
			}
			if got != c.want {
				t.Errorf("runs begin in the order %s, want %s", got, c.want)
			}
		})
	}
}

// TestChainsInQueues checks that the run retry policy puts the next run into the queue again; continue-as-new keeps the
// place.
func TestChainsInQueues(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	again := flow("again", task())
	again.Again = 2
	first := r.start(again, into(core.RunQueue{Name: "bills", Priority: -1}))
	r.settle()
	tasks := r.workers.dispatched()
	waiter := r.bill("", 0)
	r.end(tasks[0], failTask)
	tasks = r.workers.dispatched()
	if len(tasks) != 1 || tasks[0].Token.Run != waiter {
		t.Fatalf("%v began after the failed run", tasks)
	}
	next := r.state(first).Next
	r.wantRunHeld(next, core.Held{Reason: core.HeldConcurrency})
	r.endOne(tasks)
	wantRuns(t, r.began(), next)
}

// TestRetriedRunWaitsAgain checks that an operator's retry of a closed run waits for the queue.
func TestRetriedRunWaitsAgain(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	failed := r.bill("", 0)
	r.end(r.workers.dispatched()[0], failTask)
	other := r.bill("", 0)
	ask(r, &InputCall{Run: failed, Input: core.Operation{Op: core.OpRetryRun, Step: core.NoStep}})
	r.settle()
	r.wantOpen(failed, core.RunPending)
	r.wantRunHeld(failed, core.Held{Reason: core.HeldConcurrency})
	r.restart()
	r.settle()
	r.wantOpen(failed, core.RunPending)
	r.endOne(r.workers.dispatched())
	r.wantPhase(other, core.RunSucceeded)
	wantRuns(t, r.began(), failed)
}

// TestRetriedBeforeItsEndIsDurable checks that a retry in the batch of the run's end does not use the place that this
// end frees.
func TestRetriedBeforeItsEndIsDurable(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	failed := r.bill("", 0)
	task := r.workers.dispatched()[0]
	other := r.bill("", 0)
	r.p.Report(failed, failTask(task), r.now)
	ask(r, &InputCall{Run: failed, Input: core.Operation{Op: core.OpRetryRun, Step: core.NoStep}})
	r.settle()
	wantRuns(t, r.began(), other)
	r.wantOpen(failed, core.RunPending)
}

// TestChildInTheQueueOfItsParent checks that a child run in the queue of its parent needs no place of its own: the
// parent would wait for it for ever.
func TestChildInTheQueueOfItsParent(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	leaf := flow("leaf", task())
	leaf.Queue = "bills"
	middle := flow("middle", child(`{"name":"leaf"}`))
	middle.Queue = "between"
	r.plans["leaf"], r.plans["middle"] = leaf.definition(), middle.definition()
	top := r.start(flow("top", child(`{"name":"middle"}`)), into(core.RunQueue{Name: "bills"}))
	r.settle()
	waiter := r.bill("", 0)
	tasks := r.workers.dispatched()
	if len(tasks) != 1 || tasks[0].Workflow != "leaf" {
		t.Fatalf("%v began", tasks)
	}
	r.endOne(tasks)
	r.wantPhase(top, core.RunSucceeded)
	wantRuns(t, r.began(), waiter)
}

// TestAdmissionAfterAFailedAppend checks that a run has not begun if the batch that let it begin failed.
func TestAdmissionAfterAFailedAppend(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	first := r.bill("", 0)
	tasks := r.workers.dispatched()
	second := r.bill("", 0)
	failures := 1
	r.journal.Fault = func(op memory.Op, _ *journal.Batch) error {
		if op != memory.OpAppend || failures == 0 {
			return nil
		}
		failures--
		return errors.New("the disk is full")
	}
	r.endOne(tasks)
	r.wantPhase(first, core.RunSucceeded)
	wantRuns(t, r.began(), second)
	if n := len(r.p.admissions.tickets); failures != 0 || n != 1 {
		t.Fatalf("%d failures left, %d tickets", failures, n)
	}
}

// TestChangedLimits checks that new limits count for what is held already: those of the configuration after a restart,
// those of a definition when a run of the new one is started. Older ones do not come back with an older run.
func TestChangedLimits(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	for range 5 {
		r.bill("", 0)
	}
	r.workers.dispatched()
	for _, change := range []struct{ limit, began int }{{3, 3}, {2, 3}, {4, 4}} {
		r.queues["bills"] = policy.QueueLimits{Concurrency: change.limit}
		r.restart()
		r.settle()
		if n := len(r.workers.dispatched()); n != change.began {
			t.Fatalf("with a limit of %d, %d runs go on", change.limit, n)
		}
	}

	r = newRig(t, 1000)
	deployed := func(limit int) plan {
		p := flow("bill", task())
		p.Queue, p.Limit = "bills", limit
		return p
	}
	for range 4 {
		r.start(deployed(1))
		r.settle()
		r.pass(time.Millisecond)
	}
	r.start(deployed(3))
	r.settle()
	if n := len(r.workers.dispatched()); n != 3 {
		t.Fatalf("with the new definition's limit of 3, %d runs began", n)
	}
	r.restart()
	r.settle()
	if n := len(r.workers.dispatched()); n != 3 {
		t.Fatalf("after a restart %d runs go on", n)
	}
}

// TestPlacesAreCountedOnce checks that two partitions of a process share the places of a queue. After a restart neither
// admits a run before the places of both are counted.
func TestPlacesAreCountedOnce(t *testing.T) {
	workers := newFakeWorkers(-1)
	journals := []*memory.Journal{memory.New(), memory.New()}
	var rigs []*rig
	var woken []int
	wake := func() {
		for ; len(woken) > 0; woken = woken[1:] {
			rigs[woken[0]].p.Match("bills", admissionTask, epoch)
			rigs[woken[0]].settle()
		}
	}
	open := func() {
		m := slots.NewMatcher()
		m.Add("w", workers)
		rigs = nil
		for i := range journals {
			r := &rig{t: t, workers: workers, journal: journals[i].Reopen(), now: epoch, seed: uint64(i * 1000)}
			journals[i] = r.journal
			r.queues = map[string]policy.QueueLimits{"bills": {Concurrency: 2}}
			cfg := r.config()
			cfg.Kinds, cfg.Workers, cfg.Matcher = plans, nil, m
			cfg.Wake = func(string, string) { woken = append(woken, i) }
			r.p = NewPartition(cfg)
			rigs = append(rigs, r)
		}
		for _, r := range slices.Backward(rigs) {
			if err := r.p.Open(t.Context(), r.now); err != nil {
				t.Fatal(err)
			}
			r.settle()
		}
		wake()
	}
	open()
	owner := map[core.RunID]int{}
	var started []core.RunID
	for i := range 6 {
		n := min(i/2, 1) // two runs of the first partition have the places
		id := rigs[n].bill("", 0)
		owner[id] = n
		started = append(started, id)
	}
	wantRuns(t, rigs[0].began(), started[:2]...)
	workers.dispatched()
	open()
	tasks := workers.dispatched()
	var got []core.RunID
	for len(tasks) > 0 {
		if len(tasks) > 2 {
			t.Fatalf("%d runs at once", len(tasks))
		}
		got = append(got, tasks[0].Token.Run)
		rigs[owner[tasks[0].Token.Run]].end(tasks[0], succeed)
		wake()
		tasks = append(tasks[1:], workers.dispatched()...)
	}
	wantRuns(t, got, started...)
}

// TestRunSetAsideGivesUpItsPlace checks that a run whose code panics gives up its place: nobody can carry it on.
func TestRunSetAsideGivesUpItsPlace(t *testing.T) {
	r := newQueueRig(t, policy.QueueLimits{Concurrency: 1})
	r.trap = func(plan, place string) {
		if plan == "broken" && place == "decide" && len(r.workers.begun) > 0 {
			panic("a bug")
		}
	}
	r.restart()
	broken := r.start(flow("broken", task()), into(core.RunQueue{Name: "bills"}))
	r.settle()
	task := r.workers.dispatched()[0]
	waiter := r.bill("", 0)
	r.end(task, succeed)
	if r.p.SetAside(broken) == nil {
		t.Fatal("it is not set aside")
	}
	wantRuns(t, r.began(), waiter)
}
