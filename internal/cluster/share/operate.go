package share

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
)

// Operator lets people look at the nodes of a database, and say what they should do.
type Operator struct{ cluster.Storage }

var _ api.Cluster = Operator{}

func (o Operator) Cluster(ctx context.Context) (api.ClusterStatus, error) {
	s, err := o.Snapshot(ctx)
	if err != nil {
		return api.ClusterStatus{}, err
	}
	return statusOf(s), nil
}

// statusOf sorts the partitions by their owners. Owners that are not nodes come last.
func statusOf(s cluster.Snapshot) api.ClusterStatus {
	out := api.ClusterStatus{
		Partitions: len(s.Partitions), Free: []int{}, Nodes: []api.ClusterNode{}, Pinned: map[int]string{},
		Stores: storesOf(s),
	}
	places := map[string]int{}
	for _, n := range s.Nodes {
		state := "alive"
		switch {
		case !n.Alive:
			state = "dead"
		case n.Leaving:
			state = "draining"
		}
		places[n.ID] = len(out.Nodes)
		out.Nodes = append(out.Nodes, api.ClusterNode{
			ID: n.ID, State: state, Address: n.Address, Version: n.Version, Since: api.Time(n.Since),
			Partitions: []int{},
		})
	}
	for i, p := range s.Partitions {
		if p.Pin != "" {
			out.Pinned[i] = p.Pin
		}
		if p.Silent {
			continue // nobody knows
		}
		if p.Owner == "" || !p.Alive {
			out.Free = append(out.Free, i)
			continue
		}
		at, known := places[p.Owner]
		if !known {
			at = len(out.Nodes)
			places[p.Owner] = at
			out.Nodes = append(out.Nodes, api.ClusterNode{ID: p.Owner, State: "no node"})
		}
		out.Nodes[at].Partitions = append(out.Nodes[at].Partitions, i)
	}
	return out
}

func (o Operator) Drain(ctx context.Context, r api.NodeDrain) error {
	found, err := o.Ask(ctx, r.Node, !r.Undo)
	if err == nil && !found {
		err = noNode(r.Node)
	}
	return err
}

// Move implements api.Cluster. It refuses where the partition would not move.
func (o Operator) Move(ctx context.Context, r api.PartitionMove) error {
	if r.Undo == (r.Node != "") {
		return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"name the node that should have partition %d, or undo its move", r.Partition)}
	}
	if r.Undo {
		found, err := o.Unpin(ctx, r.Partition)
		if err == nil && !found {
			err = &api.Error{
				Code: api.CodeNotFound, Message: fmt.Sprintf("partition %d was not moved to a node", r.Partition),
				Hint: "pawl cluster status lists those that were",
			}
		}
		return err
	}
	s, err := o.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := within(s, r.Partition); err != nil {
		return err
	}
	i := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.ID == r.Node })
	switch {
	case i < 0:
		return noNode(r.Node)
	case !s.Nodes[i].Alive:
		return &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the node %q is dead", r.Node),
			Hint: "pawl cluster status lists the nodes that are alive",
		}
	case s.Nodes[i].Leaving:
		return &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the node %q gives its partitions back", r.Node),
			Hint: "pawl cluster drain NODE --undo makes it take some again",
		}
	}
	found, err := o.Pin(ctx, r.Partition, r.Node)
	if err == nil && !found {
		err = noNode(r.Node)
	}
	return err
}

// within refuses a partition that there is not.
func within(s cluster.Snapshot, partition int) error {
	if partition >= 0 && partition < len(s.Partitions) {
		return nil
	}
	return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
		"there is no partition %d: the database has %d, counted from 0", partition, len(s.Partitions))}
}

func noNode(id string) error {
	return &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("there is no node %q", id), Hint: "pawl cluster status lists them",
	}
}
