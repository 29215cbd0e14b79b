package pawltest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

const paid pawl.Event[int] = "paid"

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// parcels waits for a payment, then ships. The step of a run counts how often it was made.
func parcels(shipped map[string]int) *pawl.Workflow[string, string] {
	return pawl.Define("parcels", func(ctx pawl.Context, id string) (string, error) {
		cents, err := paid.Wait(ctx)
		if err != nil {
			return "", err
		}
		return pawl.Step(ctx, "ship", func(context.Context) (string, error) {
			shipped[id]++
			return fmt.Sprint(id, " for ", cents), nil
		})
	})
}

// owned returns which partitions a node has.
func owned(e *pawltest.Env) int {
	_, partitions := e.Node()
	return len(partitions)
}

func TestNodesShareRuns(t *testing.T) {
	shipped := map[string]int{}
	w := parcels(shipped)
	pawltest.RunNodes(t, 3, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, nodes []*pawltest.Env) {
		ctx := t.Context()
		for i, e := range nodes {
			if n := owned(e); n != 2 {
				t.Errorf("node %d has %d partitions", i, n)
			}
		}
		for i := range 9 {
			id := fmt.Sprint("p-", i)
			_, err := w.Start(ctx, nodes[i%3], id, id)
			ok(t, err)
			ok(t, paid.Send(ctx, nodes[(i+1)%3], id, 100))
			if out, err := pawl.RunOf[string](nodes[(i+2)%3], id).Result(ctx); err != nil || out != id+" for 100" {
				t.Errorf("%q, %v", out, err)
			}
		}
		nodes[0].Skip(5 * time.Second) // lists come a little later
		runs, err := nodes[2].ListRuns(ctx, client.Query{Phases: []client.Phase{client.PhaseSucceeded}})
		if err != nil || len(runs) != 9 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

// TestNodeDies checks that the others take over what a dead node had, when its leases have ended and not before, and
// that it takes its share again when it is back.
func TestNodeDies(t *testing.T) {
	shipped := map[string]int{}
	w := parcels(shipped)
	pawltest.RunNodes(t, 3, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, nodes []*pawltest.Env) {
		ctx := t.Context()
		for i := range 9 {
			id := fmt.Sprint("p-", i)
			_, err := w.Start(ctx, nodes[i%3], id, id)
			ok(t, err)
		}
		nodes[1].Kill()
		nodes[0].Skip(20 * time.Second)
		if n := owned(nodes[0]) + owned(nodes[2]); n != 4 {
			t.Errorf("the others have %d partitions while the leases last", n)
		}
		nodes[0].Skip(20 * time.Second)
		if n := owned(nodes[0]) + owned(nodes[2]); n != 6 {
			t.Errorf("the others have %d partitions after the leases", n)
		}
		for i := range 9 {
			id := fmt.Sprint("p-", i)
			ok(t, paid.Send(ctx, nodes[0], id, i))
			if _, err := pawl.RunOf[string](nodes[2], id).Result(ctx); err != nil || shipped[id] != 1 {
				t.Errorf("%s was shipped %d times, %v", id, shipped[id], err)
			}
		}
		nodes[1].Reopen()
		nodes[0].Skip(time.Minute)
		if n := owned(nodes[1]); n != 2 {
			t.Errorf("the node that is back has %d partitions", n)
		}
	})
}

// TestNodeLeaves checks that a deploy loses nothing: the others have what the node had at once.
func TestNodeLeaves(t *testing.T) {
	w := parcels(map[string]int{})
	pawltest.RunNodes(t, 2, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, nodes []*pawltest.Env) {
		ctx := t.Context()
		_, err := w.Start(ctx, nodes[0], "p-1", "p-1")
		ok(t, err)
		ok(t, nodes[0].Close())
		nodes[1].Skip(time.Second)
		if n := owned(nodes[1]); n != 4 {
			t.Errorf("the node that stays has %d partitions", n)
		}
		ok(t, paid.Send(ctx, nodes[1], "p-1", 7))
		if _, err := nodes[1].AwaitRun(ctx, "p-1"); err != nil {
			t.Error(err)
		}
		nodes[0].Reopen()
	})
}

// TestNodesHaveFakes checks that the fakes of a test answer on each node.
func TestNodesHaveFakes(t *testing.T) {
	cfg := pawl.Config{Workflows: []pawl.Definition{fulfil, deliver}}
	pawltest.RunNodes(t, 2, cfg, func(t *testing.T, nodes []*pawltest.Env) {
		pawltest.FakeCall(nodes[0], reserve).Return("shelf-7")
		pawltest.FakeStep[string](nodes[1], "charge").Return("txn-1")
		pawltest.FakeChild(nodes[0], deliver).Return(Parcel{"P-1"})
		var runs []string
		for i := range 6 {
			run, err := fulfil.Start(t.Context(), nodes[i%2], fmt.Sprint("order-", i), Order{})
			ok(t, err)
			out, err := run.Result(t.Context())
			ok(t, err)
			runs = append(runs, out)
		}
		if slices.ContainsFunc(runs, func(out string) bool { return out != "shelf-7 txn-1 P-1" }) {
			t.Errorf("%q", runs)
		}
	})
}
