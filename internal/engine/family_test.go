package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// TestNames checks that a second start with the same workflow id, key or run id finds the run, wherever the run is
// stored.
func TestNames(t *testing.T) {
	r := newRig(t, -1)
	p := flow("wait", nap(time.Hour))
	wid := func(s *StartRequest) { s.WorkflowID = "order-1" }
	key := func(s *StartRequest) { s.Key = "k" }
	try := func(opts ...func(*StartRequest)) *StartCall {
		req := StartRequest{Definition: p.definition()}
		for _, o := range opts {
			o(&req)
		}
		return ask(r, &StartCall{Start: req})
	}
	id := r.start(p, wid, key)
	check := func(where string) {
		t.Helper()
		if c := try(wid); !errors.Is(c.Err, ErrConflict) {
			t.Fatalf("run %s: a start with the same workflow id: %v", where, c.Err)
		}
		if c := try(wid, func(s *StartRequest) { s.OnConflict = ConflictUse }); c.Answer != (Started{id, true}) {
			t.Fatalf("run %s: a start with ConflictUse: %+v %v", where, c.Answer, c.Err)
		}
		if c := try(key); c.Answer != (Started{id, true}) {
			t.Fatalf("run %s: a start with the same key: %+v %v", where, c.Answer, c.Err)
		}
		if c := try(func(s *StartRequest) { s.RunID = id }); c.Answer != (Started{id, true}) {
			t.Fatalf("run %s: a start with the same run id: %+v %v", where, c.Answer, c.Err)
		}
	}
	check("not durable")
	r.commit()
	check("in memory")
	r.restart()
	check("in the tail")
	r.pass(10 * time.Second)
	if r.p.Stats().Loaded != 0 {
		t.Fatal("the run is still in memory")
	}
	check("in the view")
	ask(r, &InputCall{Run: id, Input: core.Operation{Op: core.OpTerminate, Step: core.NoStep}})
	if c := try(wid); c.Err != nil || c.Answer.Existing {
		t.Fatalf("the workflow id of an ended run is not free: %+v %v", c.Answer, c.Err)
	}
	if c := try(key); !c.Answer.Existing {
		t.Fatalf("the key of an ended run was forgotten: %+v", c.Answer)
	}
}

// TestResultOfAChain checks that the result of a chain is that of its last run, for a caller who waits and for one who
// asks later.
func TestResultOfAChain(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = func(c core.Task) core.Input {
		if len(r.workers.begun) < 3 {
			return failTask(c)
		}
		return succeed(c)
	}
	p := flow("chain", task())
	p.Again = 5
	id := r.start(p)
	w := NewWaiter()
	ask(r, &ResultCall{Run: id, Waiter: w})
	r.settle()
	out, ok := w.Ended()
	if !ok || out.Phase != core.RunSucceeded || out.Run == id {
		t.Fatalf("a caller who waited: ended %v, %+v", ok, out)
	}
	if out2, ok := r.outcome(id); !ok || out2.Run != out.Run {
		t.Fatalf("a caller who asked later: ended %v, %+v", ok, out2)
	}
}

// jsonChild returns the Child of a kind whose child steps say in JSON what they start.
func jsonChild(
	find func(core.DefinitionID, string) (journal.Definition, error),
) func(core.DefinitionID, []byte) (Child, error) {
	return func(parent core.DefinitionID, payload []byte) (c Child, err error) {
		var p struct {
			Name, Close string
			Input       json.RawMessage
		}
		if err := json.Unmarshal(payload, &p); err != nil {
			return c, err
		}
		c.Input = p.Input
		c.Close = map[string]core.CloseChild{"abandon": core.ChildAbandon, "terminate": core.ChildTerminate}[p.Close]
		c.Definition, err = find(parent, p.Name)
		return c, err
	}
}

func payload(name string) string {
	b, _ := json.Marshal(map[string]any{"name": name, "input": 1})
	return string(b)
}

// TestChildren checks that a parent that waits for its child leaves memory, and goes on when the child has ended, after
// a restart too.
func TestChildren(t *testing.T) {
	r := newRig(t, -1)
	r.workers.act = succeed
	inner := flow("inner", nap(time.Hour), task())
	r.plans["inner"] = inner.definition()
	id := r.start(flow("outer", child(payload("inner")), task()))
	r.pass(time.Minute)
	if r.p.Stats().Loaded != 0 {
		t.Fatal("a waiting parent stays in memory")
	}
	r.restart()
	r.pass(2 * time.Hour)
	r.wantPhase(id, core.RunSucceeded)
	if n := len(r.workers.begun); n != 2 {
		t.Fatalf("%d tasks, want 2", n)
	}
}

// TestChildOfUnknownName checks that a child step that names no workflow, or whose payload is not JSON, fails.
func TestChildOfUnknownName(t *testing.T) {
	r := newRig(t, -1)
	id := r.start(flow("outer", child(payload("nobody"))))
	r.settle()
	r.wantPhase(id, core.RunFailed)
	id = r.start(flow("broken", child(`{`)))
	r.settle()
	r.wantPhase(id, core.RunFailed)
}

// TestChildInputIsChecked checks that the input of a child run is checked. If it is wrong, the step fails and no run is
// created.
func TestChildInputIsChecked(t *testing.T) {
	for _, c := range []struct {
		payload string
		phase   core.RunPhase
		runs    int
	}{
		{`{"name":"inner","input":1}`, core.RunSucceeded, 2},
		{`{"name":"inner"}`, core.RunSucceeded, 2},
		{`{"name":"inner","input":2}`, core.RunFailed, 1},
	} {
		r := newRig(t, -1)
		inner := flow("inner", nap(time.Second))
		inner.Wants = "1"
		r.plans["inner"] = inner.definition()
		id := r.start(flow("outer", child(c.payload)))
		r.pass(time.Minute)
		r.wantPhase(id, c.phase)
		page, err := r.journal.List(context.Background(), journal.Query{Limit: 10})
		if err != nil || len(page.Runs) != c.runs {
			t.Errorf("%s: %d runs, want %d (%v)", c.payload, len(page.Runs), c.runs, err)
		}
	}
}

// TestCancelReachesChildren checks that if a parent is cancelled or terminated, its child ends too.
func TestCancelReachesChildren(t *testing.T) {
	for _, op := range []core.Op{core.OpCancel, core.OpTerminate} {
		t.Run(op.String(), func(t *testing.T) {
			r := newRig(t, -1)
			r.plans["inner"] = flow("inner", nap(time.Hour)).definition()
			id := r.start(flow("outer", child(payload("inner"))))
			r.pass(time.Minute)
			ask(r, &InputCall{Run: id, Input: core.Operation{Op: op, Step: core.NoStep}})
			r.pass(time.Second)
			page, err := r.journal.List(context.Background(), journal.Query{Limit: 10})
			if err != nil || len(page.Runs) != 2 {
				t.Fatal(err, page)
			}
			for _, row := range page.Runs {
				if !row.Phase.Closed() {
					t.Errorf("%s is %s", row.Workflow, row.Phase)
				}
			}
		})
	}
}

// TestChildrenFollowTheirParentsDeadline checks that if an operator extends the deadline of a parent, the deadlines of
// its children move as well.
func TestChildrenFollowTheirParentsDeadline(t *testing.T) {
	r := newRig(t, -1)
	r.plans["inner"] = flow("inner", nap(90*time.Minute)).definition()
	r.plans["middle"] = flow("middle", child(payload("inner"))).definition()
	id := r.start(flow("outer", child(payload("middle"))), func(s *StartRequest) {
		s.Run = &policy.Limit{After: time.Hour}
	})
	r.pass(30 * time.Minute)
	ask(r, &InputCall{Run: id, Input: core.Operation{Op: core.OpExtend, Step: core.NoStep, By: time.Hour}})
	r.settle()
	r.restart()
	r.pass(2 * time.Hour)
	r.wantPhase(id, core.RunSucceeded)
}

// TestCircle checks that runs that start one another without end stop at the depth that is allowed. Each begins in a
// batch of its own, so that others have their turns.
func TestCircle(t *testing.T) {
	r := newRig(t, -1)
	r.depth = 5
	r.restart()
	ping, pong := flow("ping", child(`{"name":"pong"}`)), flow("pong", child(`{"name":"ping"}`))
	r.plans["ping"], r.plans["pong"] = ping.definition(), pong.definition()
	batches := 0
	r.journal.Fault = func(op memory.Op, _ *journal.Batch) error {
		if op == memory.OpAppend {
			batches++
		}
		return nil
	}
	first := r.start(ping)
	r.settle()
	if batches < 6 {
		t.Errorf("six runs began in %d batches", batches)
	}
	out, ok := r.outcome(first)
	if !ok || out.Phase != core.RunFailed || !strings.Contains(out.Failure.Message, "at most 5 runs above it") {
		t.Errorf("%v, %s, %v", ok, out.Phase, out.Failure)
	}
}

// TestFamilyIsBounded checks that no more runs of a tree are open than are allowed.
func TestFamilyIsBounded(t *testing.T) {
	r := newRig(t, -1)
	r.family = 3
	r.restart()
	r.pass(time.Millisecond)
	tree := flow("tree", child(`{"name":"tree"}`))
	r.plans["tree"] = tree.definition()
	first := r.start(tree)
	other := r.start(flow("other", child(`{"name":"tree"}`)))
	r.settle()
	for _, id := range []core.RunID{first, other} {
		out, ok := r.outcome(id)
		const want = "3 child runs of one family are open"
		if !ok || out.Phase != core.RunFailed || !strings.Contains(out.Failure.Message, want) {
			t.Errorf("%v, %s, %.200s", ok, out.Phase, out.Failure.Message)
		}
	}
	if n := len(r.p.cfg.families.open); n != 0 {
		t.Errorf("%d families are still counted", n)
	}
}
