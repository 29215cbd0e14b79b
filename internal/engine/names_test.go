package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// begin starts a run. name sets the names by which the caller identifies it.
func (r *rig) begin(p plan, name func(*StartRequest)) (Started, error) {
	req := StartRequest{Definition: p.definition(), Start: core.Start{Input: []byte(`{"n": 1, "list": [1]}`)}}
	name(&req)
	c := ask(r, &StartCall{Start: req})
	return c.Answer, c.Err
}

// everywhere calls check while the runs are in memory, when they are only in the view, and after a restart.
func (r *rig) everywhere(check func(where string)) {
	r.t.Helper()
	check("in memory")
	r.pass(time.Minute)
	if n := r.p.Stats().Loaded; n != 0 {
		r.t.Fatalf("%d runs are still in memory", n)
	}
	check("in the view")
	r.restart()
	check("after a restart")
}

// TestKeysBelongToAWorkflow checks that each of two workflows that use the same key finds its own run by it.
func TestKeysBelongToAWorkflow(t *testing.T) {
	r := newRig(t, -1)
	charge, refund := flow("charge", nap(time.Hour)), flow("refund", nap(time.Hour))
	withKey := func(req *StartRequest) { req.Key = "order-7" }
	a, errA := r.begin(charge, withKey)
	b, errB := r.begin(refund, withKey)
	if errA != nil || errB != nil || a.Existing || b.Existing || a.Run == b.Run {
		t.Fatalf("%+v, %v; %+v, %v", a, errA, b, errB)
	}
	r.everywhere(func(where string) {
		for _, c := range []struct {
			plan plan
			want core.RunID
		}{{charge, a.Run}, {refund, b.Run}} {
			if again, err := r.begin(c.plan, withKey); err != nil || !again.Existing || again.Run != c.want {
				t.Errorf("%s: %s: %+v, %v", where, c.plan.Name, again, err)
			}
		}
	})
}

// TestKeyWithAnotherInput checks that it is refused as a mistake if a caller uses a key again with another input.
func TestKeyWithAnotherInput(t *testing.T) {
	r := newRig(t, -1)
	charge := flow("charge", nap(time.Hour))
	start := func(input string) (Started, error) {
		return r.begin(charge, func(req *StartRequest) { req.Key, req.Input = "order-7", []byte(input) })
	}
	first, err := start(`{"n": 1, "list": [1]}`)
	if err != nil {
		t.Fatal(err)
	}
	r.everywhere(func(where string) {
		if again, err := start(`{ "list":[1], "n":1 }`); err != nil || again.Run != first.Run {
			t.Errorf("%s: the same input in other words: %+v, %v", where, again, err)
		}
		for _, input := range []string{`{"n": 2, "list": [1]}`, `null`, ``} {
			_, err := start(input)
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), first.Run.String()) {
				t.Errorf("%s: input %q: %v", where, input, err)
			}
		}
	})
}

// TestUseExistingOfAnotherWorkflow checks that a start with ConflictUse does not get a run of another workflow that has
// the workflow id.
func TestUseExistingOfAnotherWorkflow(t *testing.T) {
	r := newRig(t, -1)
	charge, refund := flow("charge", nap(time.Hour)), flow("refund", nap(time.Hour))
	use := func(req *StartRequest) { req.WorkflowID, req.OnConflict = "order-7", ConflictUse }
	first, err := r.begin(charge, use)
	if err != nil {
		t.Fatal(err)
	}
	r.everywhere(func(where string) {
		if again, err := r.begin(charge, use); err != nil || again.Run != first.Run {
			t.Errorf("%s: %+v, %v", where, again, err)
		}
		got, err := r.begin(refund, use)
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), `"charge"`) {
			t.Errorf("%s: %+v, %v", where, got, err)
		}
	})
}

// TestNewRunsAreInTheirPartition checks that a run's id has the partition key of its workflow id or key. A child's id
// has that of its parent.
func TestNewRunsAreInTheirPartition(t *testing.T) {
	r := newRig(t, -1)
	inner := flow("inner", nap(time.Hour))
	r.plans["inner"] = inner.definition()
	parent := flow("parent", child(payload("inner")))
	for _, name := range []func(*StartRequest){
		func(req *StartRequest) { req.WorkflowID = "order-7" },
		func(req *StartRequest) { req.Key = "order-8" },
		func(req *StartRequest) { req.WorkflowID, req.Key = "order-9", "order-10" },
	} {
		started, err := r.begin(parent, name)
		if err != nil {
			t.Fatal(err)
		}
		var req StartRequest
		name(&req)
		want := core.KeyOfStart("parent", req.WorkflowID, req.Key, 0)
		if got := core.PartitionKey(started.Run); got != want {
			t.Errorf("%+v: run %s has the key %#x, want %#x", req, started.Run, got, want)
		}
		run := r.p.residents.runs[started.Run]
		if step := &run.state.Steps[0]; step.Child == (core.RunID{}) || core.PartitionKey(step.Child) != want {
			t.Errorf("the child of %s is %s", started.Run, step.Child)
		}
		r.settle()
	}
}

// TestEmptyIDs checks that calls without an id are refused. They do not find some run by chance.
func TestEmptyIDs(t *testing.T) {
	e, _ := open(t, memory.New(), -1, succeed)
	defer closeEngine(t, e)
	mustStart(t, e, flow("x", nap(time.Hour)))
	ctx, none := context.Background(), core.RunID{}
	for what, err := range map[string]error{
		"lookup":  second(e.Lookup(ctx, "")),
		"result":  second(e.Result(ctx, none)),
		"entries": second(e.Entries(ctx, none, 0)),
		"inspect": second(e.Inspect(ctx, none)),
		"operate": e.Operate(ctx, none, core.Operation{Op: core.OpCancelGracefully, Step: core.NoStep}),
		"signal":  e.Signal(ctx, none, core.SignalReceived{Name: "x"}, false),
		"watch":   e.Watch(ctx, none, 0, func(core.Entry) error { return nil }),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
