package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// newLimitedRig returns a rig whose service "shop" has limits, with more slots than any test needs.
func newLimitedRig(t *testing.T, l policy.QueueLimits) *rig {
	r := newRig(t, 1000)
	r.services = map[string]policy.QueueLimits{"shop": l}
	r.restart()
	return r
}

// shop returns a step that uses the service shop.
func shop(key string) planStep {
	s := task()
	s.Service, s.Key = "shop", key
	return s
}

// startAll starts a run of one step for each of the keys.
func (r *rig) startAll(keys ...string) (ids []core.RunID) {
	for _, key := range keys {
		ids = append(ids, r.start(flow("one-"+key, shop(key).tries(100, time.Second))))
		r.settle()
	}
	return ids
}

// began returns the runs whose attempts workers got since it was last asked.
func (r *rig) began() (ids []core.RunID) {
	for _, task := range r.workers.dispatched() {
		ids = append(ids, task.Token.Run)
	}
	return ids
}

// end reports how a task ended.
func (r *rig) end(task core.Task, in func(core.Task) core.Input) {
	r.p.Report(task.Token.Run, in(task), r.now)
	r.settle()
}

// held returns why the run's first step is held.
func (r *rig) held(id core.RunID) core.Held {
	r.t.Helper()
	run, err := r.p.get(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return run.state.Steps[0].HeldNow()
}

func (r *rig) wantHeld(id core.RunID, want core.Held) {
	r.t.Helper()
	if want.Reason != core.HeldNone {
		want.Service, want.Name = true, "shop"
	}
	if got := r.held(id); got != want {
		r.t.Fatalf("run %s: %+v, want %+v", id, got, want)
	}
}

func wantRuns(t *testing.T, got []core.RunID, want ...core.RunID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("began %v, want %v", got, want)
	}
}

func TestConcurrencyOfAService(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Concurrency: 2})
	ids := r.startAll("", "", "", "")
	tasks := r.workers.dispatched()
	if len(tasks) != 2 {
		t.Fatalf("%d attempts run", len(tasks))
	}
	for _, id := range ids[2:] {
		r.wantHeld(id, core.Held{Reason: core.HeldConcurrency})
	}
	other := r.start(flow("other", task())) // no limit bounds it
	r.settle()
	wantRuns(t, r.began(), other)
	r.end(tasks[1], succeed)
	wantRuns(t, r.began(), ids[2])
	r.wantHeld(ids[2], core.Held{})
	r.end(tasks[0], succeed)
	wantRuns(t, r.began(), ids[3])
}

// TestHeldAttemptExpires checks that an attempt that is held and whose deadline comes is withdrawn; another one gets
// its turn.
func TestHeldAttemptExpires(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Concurrency: 1})
	first := r.startAll("")[0]
	late := shop("")
	late.Queued = time.Minute
	waiter := r.start(flow("late", late))
	r.settle()
	last := r.startAll("")[0]
	task := r.workers.dispatched()[0]
	r.pass(2 * time.Minute)
	r.wantPhase(waiter, core.RunFailed)
	r.end(task, succeed)
	wantRuns(t, r.began(), last)
	r.wantPhase(first, core.RunSucceeded)
}

func TestRateOfAService(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Rate: policy.Rate{N: 2, Per: time.Second}})
	ids := r.startAll("", "", "", "", "")
	wantRuns(t, r.began(), ids[0], ids[1])
	r.wantHeld(ids[2], core.Held{Reason: core.HeldRate, Until: epoch.Add(time.Second)})
	r.pass(time.Second - time.Microsecond)
	wantRuns(t, r.began())
	r.pass(time.Microsecond)
	wantRuns(t, r.began(), ids[2], ids[3])
	r.pass(time.Second)
	wantRuns(t, r.began(), ids[4])
}

func TestKeysTakeTurns(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Concurrency: 1, Fair: true})
	ids := r.startAll("a", "a", "a", "a", "b", "c", "b")
	want := []core.RunID{ids[0], ids[1], ids[4], ids[5], ids[2], ids[6], ids[3]}
	var got []core.RunID
	for range ids {
		tasks := r.workers.dispatched()
		if len(tasks) != 1 {
			t.Fatalf("%d attempts at once", len(tasks))
		}
		got = append(got, tasks[0].Token.Run)
		r.end(tasks[0], succeed)
	}
	wantRuns(t, got, want...)
}

func TestLimitsOfAKey(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{
		Concurrency: 3, PerKey: 1, KeyRate: policy.Rate{N: 1, Per: time.Minute},
	})
	ids := r.startAll("a", "a", "b", "b", "c", "d")
	tasks := r.workers.dispatched()
	if len(tasks) != 3 {
		t.Fatalf("%d attempts run", len(tasks))
	}
	r.wantHeld(ids[1], core.Held{Reason: core.HeldKeyConcurrency, Key: "a"})
	r.wantHeld(ids[5], core.Held{Reason: core.HeldConcurrency})
	r.end(tasks[0], succeed) // the next attempt of key a has to wait for the rate, d need not
	wantRuns(t, r.began(), ids[5])
	r.end(tasks[1], succeed)
	wantRuns(t, r.began())
	r.pass(time.Minute)
	wantRuns(t, r.began(), ids[1])
}

func TestPriorityOfHeldAttempts(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Concurrency: 1})
	ids := r.startAll("", "")
	urgent := shop("")
	urgent.Priority = 3
	ids = append(ids, r.start(flow("urgent", urgent)))
	r.settle()
	var got []core.RunID
	for range ids {
		task := r.workers.dispatched()[0]
		got = append(got, task.Token.Run)
		r.end(task, succeed)
	}
	wantRuns(t, got, ids[0], ids[2], ids[1])
}

// TestBreaker checks the breaker of a failing service: it opens, one probe goes first, and a probe's success lets all
// go.
func TestBreaker(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{
		Concurrency: 2, Breaker: policy.Breaker{Failures: 3, Pause: 10 * time.Second, MaxPause: 15 * time.Second},
	})
	r.startAll("", "", "", "", "", "", "", "")
	reached := 0
	fail := func() {
		for _, task := range r.workers.dispatched() {
			reached++
			r.end(task, failTask)
		}
	}
	for range 10 {
		fail()
	}
	if reached > 4 {
		t.Fatalf("%d attempts reached the service", reached)
	}
	for i, pause := range []time.Duration{10, 15, 15} {
		r.pass(pause*time.Second - time.Microsecond)
		if tasks := r.workers.dispatched(); len(tasks) != 0 {
			t.Fatalf("pause %d: attempts began while the breaker was open: %v", i, tasks)
		}
		r.pass(time.Microsecond)
		probe := r.workers.dispatched()
		if len(probe) != 1 {
			t.Fatalf("pause %d: %d probes", i, len(probe))
		}
		r.end(probe[0], failTask)
	}
	held := 0
	for id := range r.p.residents.runs {
		if h := r.held(id); h.Reason == core.HeldBreaker {
			held++
			r.wantHeld(id, core.Held{Reason: core.HeldBreaker, Until: r.now.Add(15 * time.Second), Probes: 3})
		}
	}
	if held < 7 {
		t.Fatalf("%d attempts are held by the breaker", held)
	}
	r.pass(15 * time.Second)
	probe := r.workers.dispatched()
	if len(probe) != 1 {
		t.Fatalf("%d probes", len(probe))
	}
	r.end(probe[0], succeed)
	for n := 1; n < 8; n++ {
		tasks := r.workers.dispatched()
		if len(tasks) == 0 {
			r.pass(time.Minute) // the last probe but one backs off
			tasks = r.workers.dispatched()
		}
		if len(tasks) == 0 || len(tasks) > 2 {
			t.Fatalf("%d attempts at once", len(tasks))
		}
		r.workers.tasks = append(r.workers.tasks, tasks[1:]...)
		r.end(tasks[0], succeed)
	}
}

// TestProbeVanishes checks that a probe that says nothing about the service, since its run is cancelled, gives its
// place to another one.
func TestProbeVanishes(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Breaker: policy.Breaker{Failures: 1, Pause: time.Second}})
	ids := r.startAll("")
	r.end(r.workers.dispatched()[0], failTask)
	ids = append(ids, r.startAll("", "")...)
	r.pass(time.Second)
	probe := r.workers.dispatched()
	if len(probe) != 1 {
		t.Fatalf("%d probes", len(probe))
	}
	ask(r, &InputCall{Run: probe[0].Token.Run, Input: core.Operation{Op: core.OpCancel}})
	r.settle()
	next := r.workers.dispatched()
	if len(next) != 1 || next[0].Token.Run == probe[0].Token.Run || !slices.Contains(ids, next[0].Token.Run) {
		t.Fatalf("after the probe was cancelled: %v", next)
	}
}

// TestProbeHangs checks that a probe that says nothing for the longest pause, be it that it hangs or that its run is
// paused, makes way for another one, whose success closes the breaker. What the first one says then does not count.
func TestProbeHangs(t *testing.T) {
	for _, op := range []core.Op{0, core.OpPause} {
		r := newLimitedRig(t, policy.QueueLimits{
			Breaker: policy.Breaker{Failures: 1, Pause: time.Second, MaxPause: 15 * time.Second},
		})
		r.startAll("")
		r.end(r.workers.dispatched()[0], failTask)
		r.startAll("", "")
		r.pass(time.Second)
		hangs := r.workers.dispatched()
		if len(hangs) != 1 {
			t.Fatalf("%d probes", len(hangs))
		}
		if op != 0 {
			ask(r, &InputCall{Run: hangs[0].Token.Run, Input: core.Operation{Op: op}})
		}
		r.pass(15*time.Second - time.Microsecond)
		if tasks := r.workers.dispatched(); len(tasks) != 0 {
			t.Fatalf("attempts began beside the probe: %v", tasks)
		}
		r.pass(time.Microsecond)
		next := r.workers.dispatched()
		if len(next) != 1 {
			t.Fatalf("%d probes after the first one said nothing", len(next))
		}
		r.end(hangs[0], failTask)
		r.end(next[0], succeed)
		if tasks := r.workers.dispatched(); len(tasks) == 0 {
			t.Fatal("the service is held after a probe has succeeded")
		}
	}
}

// TestBreakerAfterRestart checks that an open breaker is found open by the next process: what it holds has recorded
// until when.
func TestBreakerAfterRestart(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Breaker: policy.Breaker{Failures: 1, Pause: 10 * time.Second}})
	r.startAll("")
	r.end(r.workers.dispatched()[0], failTask)
	ids := r.startAll("", "")
	until := r.now.Add(10 * time.Second)
	for _, id := range ids {
		r.wantHeld(id, core.Held{Reason: core.HeldBreaker, Until: until})
	}
	r.restart()
	r.pass(10*time.Second - time.Microsecond)
	wantRuns(t, r.began())
	r.pass(time.Microsecond)
	if tasks := r.workers.dispatched(); len(tasks) != 1 {
		t.Fatalf("%d probes after a restart", len(tasks))
	}
}

func TestRetriesShareABudget(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Retries: policy.Rate{N: 2, Per: time.Minute}})
	ids := r.startAll("", "", "", "", "")
	for _, task := range r.workers.dispatched() {
		r.end(task, failTask)
	}
	r.pass(2 * time.Second)
	if n := len(r.workers.dispatched()); n != 2 {
		t.Fatalf("%d retries began", n)
	}
	held := 0
	for _, id := range ids {
		if r.held(id).Reason == core.HeldRetries {
			r.wantHeld(id, core.Held{Reason: core.HeldRetries, Until: epoch.Add(time.Minute + time.Second)})
			held++
		}
	}
	if held != 3 {
		t.Fatalf("%d retries are held", held)
	}
	wantRuns(t, r.startAll(""), r.began()...) // first attempts are no retries
	r.pass(time.Minute)
	if n := len(r.workers.dispatched()); n != 2 {
		t.Fatalf("%d retries began a minute later", n)
	}
}

// TestTurnsPassWhereNoWorkerIs checks that a queue passes its turn if it finds no worker, so that others that find one
// go on.
func TestTurnsPassWhereNoWorkerIs(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Concurrency: 1})
	r.startAll("")
	task := r.workers.dispatched()[0]
	ids := r.startAll("", "")
	fax := shop("")
	fax.Type = "fax"
	other := r.start(flow("other", fax))
	r.settle()
	for _, id := range append(ids, other) {
		r.wantHeld(id, core.Held{Reason: core.HeldConcurrency})
	}
	r.workers.none = "noop"
	r.end(task, succeed)
	wantRuns(t, r.began(), other)
	for _, id := range ids {
		r.wantHeld(id, core.Held{}) // a worker is what they wait for
	}
	r.workers.none = ""
	r.p.Rematch(r.now)
	r.settle()
	r.wantHeld(ids[0], core.Held{Reason: core.HeldConcurrency})
}

// TestLimitsAfterAFailedAppend checks that a failed append takes back what was not saved; nothing stays counted.
func TestLimitsAfterAFailedAppend(t *testing.T) {
	r := newLimitedRig(t, policy.QueueLimits{Concurrency: 2})
	r.startAll("", "", "", "")
	running := r.workers.dispatched()
	failures := 1
	r.journal.Fault = func(op memory.Op, _ *journal.Batch) error {
		if op != memory.OpAppend || failures == 0 {
			return nil
		}
		failures--
		return errors.New("the disk is full")
	}
	r.end(running[0], succeed) // the start of the third one is not saved, and comes again
	r.end(running[1], succeed)
	running = r.workers.dispatched()
	if failures != 0 || len(running) != 2 {
		t.Fatalf("%d failures left, %d attempts run", failures, len(running))
	}
	for _, task := range running {
		r.end(task, succeed)
	}
	if n := r.p.Stats(); n.Queued+n.Live != 0 || r.p.tasks.tickets != 0 {
		t.Fatalf("%+v, %d tickets", n, r.p.tasks.tickets)
	}
}

// TestLimitsAreCountedOnce checks that two partitions of a process share the limits of a service, and the first come is
// the first served.
func TestLimitsAreCountedOnce(t *testing.T) {
	workers, m := newFakeWorkers(-1), slots.NewMatcher()
	m.Add("w", workers)
	rigs := make([]*rig, 2)
	var woken []int
	for i := range rigs {
		r := &rig{t: t, workers: workers, journal: memory.New(), now: epoch, seed: uint64(i * 1000)}
		r.services = map[string]policy.QueueLimits{"shop": {Concurrency: 2}}
		cfg := r.config()
		cfg.Kinds, cfg.Workers, cfg.Matcher = plans, nil, m
		cfg.Wake = func(string, string) { woken = append(woken, i) }
		r.p = NewPartition(cfg)
		if err := r.p.Open(t.Context(), r.now); err != nil {
			t.Fatal(err)
		}
		rigs[i] = r
	}
	owner := map[core.RunID]int{}
	var started, began []core.RunID
	for range 4 {
		for i, r := range rigs {
			id := r.startAll("")[0]
			owner[id] = i
			started = append(started, id)
		}
	}
	for executing := workers.dispatched(); len(executing) > 0; {
		if len(executing) > 2 {
			t.Fatalf("%d attempts at once", len(executing))
		}
		began = append(began, executing[0].Token.Run)
		rigs[owner[executing[0].Token.Run]].end(executing[0], succeed)
		for ; len(woken) > 0; woken = woken[1:] {
			rigs[woken[0]].p.Match("", "noop", epoch)
			rigs[woken[0]].settle()
		}
		executing = append(executing[1:], workers.dispatched()...)
	}
	wantRuns(t, began, started...)
}
