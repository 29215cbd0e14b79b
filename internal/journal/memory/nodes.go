package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/core"
)

// Shared is a journal from the view of one of several processes, the nodes of a cluster.
type Shared struct{ *Journal }

var _ cluster.Shareable = Shared{}

// Share returns the journal as one more process reaches it. The journal has a Term, and nobody closes or reopens it.
func (j *Journal) Share() Shared { return Shared{j.again()} }

// Cut does what the death of the process does: its calls return ErrClosed from now on, and its leases last until their
// end.
func (s Shared) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

func (s Shared) Nodes() (nodes cluster.Storage, lease time.Duration) { return table{s.Journal}, s.Term }

// nodeRow is a node in the table of nodes.
type nodeRow struct {
	node cluster.Node
	beat core.Time
}

// table is the table of nodes.
type table struct{ j *Journal }

func (t table) Now(ctx context.Context) (time.Time, error) {
	if err := t.j.enter(ctx, OpNodes, nil); err != nil {
		return time.Time{}, err
	}
	defer t.j.mu.Unlock()
	return t.j.Now().Std(), nil
}

// Stores implements cluster.Storage: there is one.
func (table) Stores() cluster.Stores { return nil }

func (t table) Beat(ctx context.Context, n cluster.Node) error {
	if err := t.j.enter(ctx, OpNodes, nil); err != nil {
		return err
	}
	defer t.j.mu.Unlock()
	now := t.j.Now()
	n.Since, n.Leaving = int64(now), false
	if before, ok := t.j.disk.nodes[n.ID]; ok {
		n.Since, n.Leaving = before.node.Since, before.node.Leaving
	}
	t.j.disk.nodes[n.ID] = nodeRow{n, now}
	return nil
}

func (t table) Snapshot(ctx context.Context) (s cluster.Snapshot, err error) {
	if err := t.j.enter(ctx, OpNodes, nil); err != nil {
		return s, err
	}
	defer t.j.mu.Unlock()
	owners := map[string]bool{}
	for n := range t.j.count {
		p := t.j.disk.partition(n)
		owners[p.owner] = true
		s.Partitions = append(s.Partitions, cluster.Partition{Owner: p.owner, Alive: t.j.alive(p), Pin: p.pin})
	}
	for _, id := range slices.Sorted(maps.Keys(t.j.disk.nodes)) {
		row := t.j.disk.nodes[id]
		row.node.Alive = t.j.Now() < row.beat.Add(t.j.Term)
		if row.node.Alive || owners[id] {
			s.Nodes = append(s.Nodes, row.node)
		}
	}
	return s, nil
}

func (t table) Ask(ctx context.Context, id string, leave bool) (bool, error) {
	if err := t.j.enter(ctx, OpNodes, nil); err != nil {
		return false, err
	}
	defer t.j.mu.Unlock()
	row, ok := t.j.disk.nodes[id]
	if ok {
		row.node.Leaving = leave
		t.j.disk.nodes[id] = row
	}
	return ok, nil
}

func (t table) Pin(ctx context.Context, partition int, id string) (bool, error) {
	if err := t.j.enter(ctx, OpNodes, nil); err != nil {
		return false, err
	}
	defer t.j.mu.Unlock()
	_, ok := t.j.disk.nodes[id]
	if ok {
		t.j.disk.partition(partition).pin = id
	}
	return ok, nil
}

func (t table) Unpin(ctx context.Context, partition int) (bool, error) {
	if err := t.j.enter(ctx, OpNodes, nil); err != nil {
		return false, err
	}
	defer t.j.mu.Unlock()
	p := t.j.disk.partition(partition)
	was := p.pin != ""
	p.pin = ""
	return was, nil
}

func (t table) Remove(ctx context.Context, id string) error {
	if err := t.j.enter(ctx, OpNodes, nil); err != nil {
		return err
	}
	defer t.j.mu.Unlock()
	delete(t.j.disk.nodes, id)
	for _, p := range t.j.disk.partitions {
		if p.pin == id {
			p.pin = ""
		}
	}
	return nil
}
