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

// mishap is what happens to one append.
type mishap struct {
	name  string
	crash bool // the process dies with it; else the engine reads the journal again
	fault func(op memory.Op) error
}

var errBroken = errors.New("broken pipe")

var mishaps = []mishap{
	{name: "crash before", crash: true, fault: func(op memory.Op) error { return only(op == memory.OpAppend, errBroken) }},
	{name: "crash after", crash: true, fault: func(op memory.Op) error { return only(op == memory.OpAck, errBroken) }},
	{name: "disk full", fault: func(op memory.Op) error { return only(op == memory.OpAppend, journal.ErrFull) }},
	{name: "failed", fault: func(op memory.Op) error { return only(op == memory.OpAppend, errBroken) }},
	{name: "lost ack", fault: func(op memory.Op) error { return only(op == memory.OpAck, errBroken) }},
}

func only(when bool, err error) error {
	if when {
		return err
	}
	return nil
}

// script is a day in the life of a partition; each of its starts names its run, so that it can be asked for again.
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
			c := r.call(&Call{Op: CallStart, Start: StartRequest{Definition: p.definition(), RunID: id, Key: fmt.Sprint("key", n)}})
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

// work is a crew that remembers how often it did each step's attempt by count.
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

func TestMishapAtEveryCommit(t *testing.T) {
	for _, m := range mishaps {
		t.Run(m.name, func(t *testing.T) {
			for at := 1; ; at++ {
				r := newRig(t, 3)
				r.crew.act = r.work
				n, happened := 0, false
				r.journal.Fault = func(op memory.Op, b *journal.Batch) error {
					if op == memory.OpAppend {
						n++
					}
					if n != at {
						return nil
					}
					err := m.fault(op)
					happened = happened || err != nil
					return err
				}
				r.crash = m.crash
				want := r.script()
				for id, phase := range want {
					if out, ok := r.outcome(id); !ok || out.Phase != phase {
						t.Fatalf("commit %d: run %s: ended %v %s, want %s", at, id, ok, out.Phase, phase)
					}
					r.checkAttempts(id, at)
				}
				if s := r.p.Stats(); s.Loaded != 0 || s.Live != 0 || s.Queued != 0 || s.Behind != 0 {
					t.Fatalf("commit %d: left over: %+v", at, s)
				}
				if !m.crash && m.name != "lost ack" && r.crew.lost(r) > 0 {
					t.Fatalf("commit %d: a failed append lost an attempt in a worker's hands", at)
				}
				if !happened {
					t.Logf("%d commits", at-1)
					return
				}
			}
		})
	}
}

// checkAttempts looks at a run's history: attempts numbered without gaps, nothing after a step's end, one end.
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

// lost counts the attempts that were recorded as lost although the worker had them.
func (c *crew) lost(r *rig) int {
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
