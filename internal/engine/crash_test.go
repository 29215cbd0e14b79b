package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// appendFault is a fault of one append.
type appendFault struct {
	name  string
	crash bool // the process crashes; otherwise the partition opens again
	fault func(op memory.Op) error
}

var errBroken = errors.New("broken pipe")

var appendFaults = []appendFault{
	{name: "crash before", crash: true, fault: failAt(memory.OpAppend, errBroken)},
	{name: "crash after", crash: true, fault: failAt(memory.OpAck, errBroken)},
	{name: "disk full", fault: failAt(memory.OpAppend, journal.ErrFull)},
	{name: "failed", fault: failAt(memory.OpAppend, errBroken)},
	{name: "lost ack", fault: failAt(memory.OpAck, errBroken)},
}

func failAt(at memory.Op, err error) func(memory.Op) error {
	return func(op memory.Op) error { return errorIf(op == at, err) }
}

func errorIf(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}

// script starts several runs and returns the phase in which each must end. Each start has a key, so that it can be
// repeated after a fault.
func (r *rig) script() map[core.RunID]core.RunPhase {
	r.plans["inner"] = flow("inner", task(), nap(2*time.Second)).definition()
	chain := flow("chain", task().tries(1, 0))
	chain.Again = 2
	slow := task().tries(2, time.Second)
	slow.Type, slow.Timeout = "hang", time.Second
	want := map[core.RunID]core.RunPhase{}
	begin := func(n byte, p plan, phase core.RunPhase) {
		id := core.RunID{0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 0x70, n, 0x80, n}
		for {
			req := StartRequest{Definition: p.definition(), RunID: id, Start: core.Start{Key: fmt.Sprint("key", n)}}
			c := ask(r, &StartCall{Start: req})
			if c.Err != nil {
				r.t.Fatal(c.Err)
			}
			r.failed = nil
			r.commit()
			if r.failed == nil {
				break // acknowledged
			}
		}
		want[id] = phase
		r.pass(300 * time.Millisecond)
	}
	begin(1, flow("nap", task(), nap(time.Second), task()), core.RunSucceeded)
	begin(2, flow("retry", task(), failing(2, time.Second), task()), core.RunSucceeded)
	begin(3, flow("parent", child(payload("inner")), task()), core.RunSucceeded)
	begin(4, chain, core.RunSucceeded)
	begin(5, flow("hang", slow), core.RunFailed)
	begin(6, flow("long", nap(time.Minute), task()), core.RunSucceeded)
	r.pass(3 * time.Second)
	r.pass(5 * time.Minute)
	return want
}

func failing(n int, backoff time.Duration) planStep {
	s := task().tries(n, backoff)
	s.Type = "flaky"
	return s
}

// work executes the tasks of the script: one type never ends, one fails at its first attempt, the others succeed.
func (r *rig) work(t core.Task) core.Input {
	switch {
	case t.Type == "hang":
		return nil
	case t.Type == "flaky" && t.Count == 1:
		return failTask(t)
	default:
		return succeed(t)
	}
}

// TestFaultAtEveryCommit runs the script with each fault at each of its commits. All runs end as they must, and no
// attempt is lost or repeated that should not be.
func TestFaultAtEveryCommit(t *testing.T) {
	for _, f := range appendFaults {
		t.Run(f.name, func(t *testing.T) {
			for at := 1; ; at++ {
				r := newRig(t, 3)
				r.workers.act = r.work
				n, happened := 0, false
				r.journal.Fault = func(op memory.Op, b *journal.Batch) error {
					if op == memory.OpAppend {
						n++
					}
					if n != at {
						return nil
					}
					err := f.fault(op)
					happened = happened || err != nil
					return err
				}
				r.crash = f.crash
				want := r.script()
				for id, phase := range want {
					if out, ok := r.outcome(id); !ok || out.Phase != phase {
						t.Fatalf("commit %d: run %s: ended: %v, phase %s, want %s", at, id, ok, out.Phase, phase)
					}
					r.checkAttempts(id, at)
				}
				if s := r.p.Stats(); s.Loaded != 0 || s.Live != 0 || s.Queued != 0 || s.Behind != 0 {
					t.Fatalf("commit %d: something is left in memory: %+v", at, s)
				}
				if !f.crash && f.name != "lost ack" && r.lostAttempts() > 0 {
					t.Fatalf("commit %d: an attempt that a worker executes was recorded as lost", at)
				}
				if !happened {
					t.Logf("%d commits", at-1)
					return
				}
			}
		})
	}
}

// checkAttempts checks a run's history: time does not go back, no attempt starts after its step has ended, and steps
// and the run end once.
func (r *rig) checkAttempts(id core.RunID, at int) {
	r.t.Helper()
	ended, last := false, core.Time(0)
	closed := map[core.StepID]bool{}
	for _, e := range r.history(id) {
		if e.At < last {
			r.t.Fatalf("commit %d: run %s went back in time", at, id)
		}
		last = e.At
		for _, rec := range e.Records {
			switch rec := rec.(type) {
			case core.StepEnded:
				if closed[rec.Step] {
					r.t.Fatalf("commit %d: step %d of run %s ended twice", at, rec.Step, id)
				}
				closed[rec.Step] = true
			case core.AttemptStarted:
				if closed[rec.Step] {
					r.t.Fatalf("commit %d: a finished step of run %s ran again", at, id)
				}
			case core.RunEnded:
				if ended {
					r.t.Fatalf("commit %d: run %s ended twice", at, id)
				}
				ended = true
			}
		}
	}
}

// lostAttempts counts the attempts that are recorded as lost.
func (r *rig) lostAttempts() int {
	n := 0
	page, _ := r.journal.List(context.Background(), journal.Query{Limit: 1000})
	for _, row := range page.Runs {
		for _, e := range r.history(row.ID) {
			for _, rec := range e.Records {
				if end, ok := rec.(core.AttemptEnded); ok && end.Failure != nil && end.Failure.Type == "lost" {
					n++
				}
			}
		}
	}
	return n
}
