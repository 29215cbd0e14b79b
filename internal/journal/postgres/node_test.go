package postgres

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestNodes keeps the table of nodes: who is alive by the database's clock, who owns what, who was asked to leave.
func TestNodes(t *testing.T) {
	dsn := own(t, pgtest.Start(t))
	j, err := Open(t.Context(), with(t, dsn, "lease", "1h"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	shared, ok := j.(cluster.Shareable)
	if !ok {
		t.Fatal("the journal cannot be shared")
	}
	nodes, lease := shared.Nodes()
	if lease.Hours() != 1 {
		t.Fatal(lease)
	}
	for _, id := range []string{"b", "a", "c"} {
		n := cluster.Node{ID: id, Address: id + ":7296", Version: "v1", Secret: "s"}
		if err := nodes.Beat(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	l, err := j.Acquire(t.Context(), 1, "b")
	if err != nil {
		t.Fatal(err)
	}
	schema := j.(*stores).schema
	execute(t, dsn, "UPDATE "+schema+".nodes SET beat = beat - interval '2 hours' WHERE id = 'a'")
	execute(t, dsn, "UPDATE "+schema+".nodes SET beat = beat + interval '2 hours' WHERE id = 'c'")
	if found, err := nodes.Ask(t.Context(), "b", true); err != nil || !found {
		t.Fatal(found, err)
	}
	if found, err := nodes.Ask(t.Context(), "nobody", true); err != nil || found {
		t.Fatal(found, err)
	}
	s, err := nodes.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Nodes {
		if s.Nodes[i].Since == 0 {
			t.Error("a node without its beginning")
		}
		s.Nodes[i].Since = 0
	}
	want := []cluster.Node{
		{ID: "a", Address: "a:7296", Version: "v1", Secret: "s"},
		{ID: "b", Address: "b:7296", Version: "v1", Secret: "s", Alive: true, Leaving: true},
		{ID: "c", Address: "c:7296", Version: "v1", Secret: "s"}, // its sign of life is of the future
	}
	if !slices.Equal(s.Nodes, want) {
		t.Errorf("nodes %+v", s.Nodes)
	}
	free := cluster.Partition{Store: nameOfFirst, Target: nameOfFirst}
	owned := free
	owned.Owner, owned.Alive = "b", true
	if !slices.Equal(s.Partitions, []cluster.Partition{free, owned, free}) {
		t.Errorf("partitions %+v", s.Partitions)
	}
	for node, known := range map[string]bool{"b": true, "nobody": false} {
		if found, err := nodes.Pin(t.Context(), 1, node); err != nil || found != known {
			t.Fatal(node, found, err)
		}
	}
	if s, err = nodes.Snapshot(t.Context()); err != nil || s.Partitions[1].Pin != "b" {
		t.Errorf("%+v, %v", s.Partitions, err)
	}
	for _, was := range []bool{true, false} {
		if found, err := nodes.Unpin(t.Context(), 1); err != nil || found != was {
			t.Fatal(found, err)
		}
	}
	if _, err := nodes.Pin(t.Context(), 1, "b"); err != nil {
		t.Fatal(err)
	}
	if err := j.Release(t.Context(), 1, l.Epoch); err != nil {
		t.Fatal(err)
	}
	if err := nodes.Remove(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	s, err = nodes.Snapshot(t.Context())
	if err != nil || len(s.Nodes) != 1 || s.Nodes[0].ID != "c" || s.Partitions[1].Pin != "" {
		t.Errorf("%+v, %v", s, err) // the one that was silent for two hours, and the pin, were forgotten
	}
}
