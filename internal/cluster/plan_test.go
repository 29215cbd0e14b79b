package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

func nodes(n int) []Node {
	var out []Node
	for i := range n {
		out = append(out, Node{ID: fmt.Sprintf("n%d", i), Alive: true})
	}
	return out
}

// carryOut makes all nodes do what they have to: they read the same stand and give, and read again and take. It counts
// the partitions that somebody gave.
func carryOut(s *Snapshot) (moved int) {
	for _, taking := range []bool{false, true} {
		read := Snapshot{Nodes: s.Nodes, Partitions: slices.Clone(s.Partitions)}
		for _, n := range s.Nodes {
			give, take := Moves(read, n.ID)
			switch {
			case !n.Alive:
			case taking:
				for _, p := range take {
					s.Partitions[p].Owner, s.Partitions[p].Alive = n.ID, true
				}
			default:
				for _, p := range give {
					s.Partitions[p].Owner, s.Partitions[p].Alive = "", false
				}
				moved += len(give)
			}
		}
	}
	return moved
}

// TestPlanBalances lets nodes come, go and leave at random. After a round all partitions have an owner that is alive,
// shares differ by one at most, a second round changes nothing, and no more moved than had to.
func TestPlanBalances(t *testing.T) {
	for seed := range uint64(nightly.Few(200, 2000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := Snapshot{Nodes: nodes(1 + r.IntN(6)), Partitions: make([]Partition, 1+r.IntN(20))}
		for range 10 {
			for i := range s.Nodes {
				n := &s.Nodes[i]
				n.Alive, n.Leaving = r.IntN(4) > 0, r.IntN(5) == 0
				for p := range s.Partitions {
					if s.Partitions[p].Owner == n.ID {
						s.Partitions[p].Alive = n.Alive
					}
				}
			}
			workers, counts := 0, map[string]int{}
			for _, n := range s.Nodes {
				if n.Alive && !n.Leaving {
					workers++
					counts[n.ID] = 0
				}
			}
			must := least(s, workers)
			moved := carryOut(&s)
			if workers == 0 {
				continue
			}
			if moved != must {
				t.Fatalf("seed %d: %d partitions moved, %d had to", seed, moved, must)
			}
			for i, p := range s.Partitions {
				if _, ok := counts[p.Owner]; !ok || !p.Alive {
					t.Fatalf("seed %d: partition %d is with %+v", seed, i, p)
				}
				counts[p.Owner]++
			}
			low, high := len(s.Partitions), 0
			for _, n := range counts {
				low, high = min(low, n), max(high, n)
			}
			if high-low > 1 {
				t.Fatalf("seed %d: shares %v", seed, counts)
			}
			before := slices.Clone(s.Partitions)
			if moved := carryOut(&s); moved != 0 || !slices.Equal(before, s.Partitions) {
				t.Fatalf("seed %d: a second round moved %d", seed, moved)
			}
		}
	}
}

// least computes in another way how many partitions have to be given back: all of those that leave, and of the others
// what is above the largest shares.
func least(s Snapshot, workers int) (n int) {
	var owned []int
	for _, node := range s.Nodes {
		own := 0
		for _, p := range s.Partitions {
			if p.Alive && p.Owner == node.ID {
				own++
			}
		}
		switch {
		case !node.Alive:
		case node.Leaving || workers == 0:
			n += own
		default:
			owned = append(owned, own)
		}
	}
	slices.Sort(owned)
	slices.Reverse(owned)
	for i, own := range owned {
		share := len(s.Partitions) / workers
		if i < len(s.Partitions)%workers {
			share++
		}
		n += max(0, own-share)
	}
	return n
}

// TestPlanWaits leaves a partition alone that a process has which is no node, such as one of an older version.
func TestPlanWaits(t *testing.T) {
	s := Snapshot{Nodes: nodes(1), Partitions: []Partition{{Owner: "pid 7", Alive: true}, {Owner: "pid 7"}, {}}}
	give, take := Moves(s, "n0")
	if len(give) != 0 || !slices.Equal(take, []int{1, 2}) {
		t.Errorf("gives %v, takes %v", give, take)
	}
}

// TestPlanPins pins partitions to nodes that come, go and leave at random. After a round each is with its node if that
// takes part, nobody has more than another one by two unless all that it has is pinned, and a second round changes
// nothing.
func TestPlanPins(t *testing.T) {
	for seed := range uint64(nightly.Few(200, 2000)) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := Snapshot{Nodes: nodes(1 + r.IntN(5)), Partitions: make([]Partition, 1+r.IntN(20))}
		for range 10 {
			part := map[string]bool{}
			for i := range s.Nodes {
				n := &s.Nodes[i]
				n.Alive, n.Leaving = r.IntN(4) > 0, r.IntN(5) == 0
				part[n.ID] = n.Alive && !n.Leaving
			}
			for i := range s.Partitions {
				p := &s.Partitions[i]
				switch r.IntN(6) {
				case 0:
					p.Pin = ""
				case 1:
					p.Pin = fmt.Sprintf("n%d", r.IntN(len(s.Nodes)+1)) // the last is no node
				}
				p.Alive = slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Alive && n.ID == p.Owner })
			}
			carryOut(&s)
			counts, pinned := map[string]int{}, map[string]int{}
			for i, p := range s.Partitions {
				if part[p.Pin] && p.Owner != p.Pin {
					t.Fatalf("seed %d: partition %d is pinned: %+v", seed, i, p)
				}
				counts[p.Owner]++
				if p.Pin == p.Owner {
					pinned[p.Owner]++
				}
			}
			for a := range part {
				for b := range part {
					if part[a] && part[b] && counts[a] > counts[b]+1 && counts[a] > pinned[a] {
						t.Fatalf("seed %d: shares %v, pinned %v", seed, counts, pinned)
					}
				}
			}
			before := slices.Clone(s.Partitions)
			if moved := carryOut(&s); moved != 0 || !slices.Equal(before, s.Partitions) {
				t.Fatalf("seed %d: a second round moved %d", seed, moved)
			}
		}
	}
}

// TestForAll checks that one node does what is for all, as long as any partition has an owner, and rather one whose
// partition is not in another store.
func TestForAll(t *testing.T) {
	s := Snapshot{
		Stores: []Store{{Name: "first"}, {Name: "b"}},
		Partitions: []Partition{
			{Owner: "n0", Alive: true, Store: "b"},
			{Owner: "n1", Store: "first"},
			{Owner: "n2", Alive: true, Store: "first"},
		},
	}
	for _, want := range []int{2, 0, -1} {
		if got := s.Coordinator(); got != want {
			t.Errorf("partition %d, want %d", got, want)
		} else if got >= 0 {
			s.Partitions[got].Alive = false
		}
	}
	if got := (Snapshot{Partitions: []Partition{{Owner: "n0", Alive: true}}}).Coordinator(); got != 0 {
		t.Errorf("without stores: partition %d", got)
	}
}
