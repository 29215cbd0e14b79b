package cluster

import (
	"cmp"
	"slices"
)

// Node is a node as the database knows it.
type Node struct {
	ID      string
	Address string // where the other nodes reach it
	Version string
	Secret  string // a fingerprint of the cluster's secret
	Since   int64  // when it joined, in microseconds since 1970, by the database's clock
	Alive   bool   // its last sign of life is recent, by the database's clock
	Leaving bool   // it gives back what it owns and takes nothing
	Reaches string // the names of the stores that it has reached, separated by commas
}

// Partition is who owns a partition.
type Partition struct {
	Owner string // the node; another text: a process that is not a node; empty: nobody
	Alive bool   // the lease has not ended
	Pin   string // the node that should own it because somebody said so; empty: whichever

	Store    string // the database that keeps it
	Target   string // the one that should: another one while it moves
	Silent   bool   // its store does not answer, so nobody knows its owner and nobody can take it
	Leftover string // another store with rows of it that nobody needs any more; empty if there is none
}

// Store is a database that keeps partitions.
type Store struct {
	Name    string
	Address string // the address without a password; empty if it is the first one, whose address all nodes have
	Err     error  // why it does not answer; nil if it does
}

// Snapshot is what the database knows at one moment: the nodes in the order of their ids, and all partitions.
type Snapshot struct {
	Nodes      []Node
	Partitions []Partition
	Stores     []Store // the first one first, the others by name
}

// held reports whether somebody has a partition, so that nobody else can take it.
func (p Partition) held() bool { return p.Owner != "" && p.Alive }

// Coordinator returns the partition whose owner runs the cluster-wide chores; -1: no partition has an owner. It is the
// first one that the first database keeps, as long as it keeps any: a store that is silent stops its own partitions
// alone.
func (s Snapshot) Coordinator() int {
	for _, elsewhere := range []bool{false, true} {
		for i, p := range s.Partitions {
			if p.held() && (elsewhere || len(s.Stores) == 0 || p.Store == s.Stores[0].Name) {
				return i
			}
		}
	}
	return -1
}

// Plan reports which node should own each partition: "" where there is none. A partition that is pinned to a node that
// takes part is that node's. Beyond what is pinned, the shares of two nodes differ by one at most, and as few
// partitions move as that allows. The plan depends on nothing but the stand, so all nodes that have read the same one
// agree.
func Plan(s Snapshot) []string {
	plan := make([]string, len(s.Partitions))
	var nodes []string
	for _, n := range s.Nodes {
		if n.Alive && !n.Leaving {
			nodes = append(nodes, n.ID)
		}
	}
	if len(nodes) == 0 {
		return plan
	}
	owned := map[string]int{} // a pinned partition counts for its node already, which owns it soon
	for _, p := range s.Partitions {
		switch {
		case slices.Contains(nodes, p.Pin):
			owned[p.Pin]++
		case p.held():
			owned[p.Owner]++
		}
	}
	// The nodes that own most get the larger shares, so that these need not move.
	slices.SortFunc(nodes, func(a, b string) int {
		return cmp.Or(cmp.Compare(owned[b], owned[a]), cmp.Compare(a, b))
	})
	left := shares(s, nodes)
	for i, p := range s.Partitions {
		if slices.Contains(nodes, p.Pin) {
			plan[i] = p.Pin
			left[p.Pin]--
		}
	}
	for i, p := range s.Partitions {
		if plan[i] == "" && p.held() && left[p.Owner] > 0 {
			plan[i] = p.Owner
			left[p.Owner]--
		}
	}
	next := 0
	for i := range plan {
		if plan[i] != "" {
			continue
		}
		for left[nodes[next]] == 0 {
			next++
		}
		plan[i] = nodes[next]
		left[nodes[next]]--
	}
	return plan
}

// shares reports how many partitions each of the nodes should own: those that are pinned to it, and of the others as
// many as make the shares most alike. The first nodes get what is over.
func shares(s Snapshot, nodes []string) map[string]int {
	out, free := map[string]int{}, 0
	for _, p := range s.Partitions {
		if slices.Contains(nodes, p.Pin) {
			out[p.Pin]++
		} else {
			free++
		}
	}
	for range free {
		out[slices.MinFunc(nodes, func(a, b string) int { return cmp.Compare(out[a], out[b]) })]++
	}
	return out
}

// Moves reports what a node has to do: give back what it owns and another one should, and take what it should own and
// nobody has.
func Moves(s Snapshot, node string) (give, take []int) {
	for i, id := range Plan(s) {
		p := s.Partitions[i]
		switch {
		case p.held() && p.Owner == node && id != node:
			give = append(give, i)
		case !p.held() && !p.Silent && id == node:
			take = append(take, i)
		}
	}
	return give, take
}
