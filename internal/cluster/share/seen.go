package share

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/cluster"
)

// learn asks the other nodes what they have seen of the database, before this one takes anything: a node that has seen
// more of it knows that it went back. Those that the table calls dead are asked, too: in the past of a database, the
// nodes of today are dead.
func (n *Node) learn(ctx context.Context) error {
	s, err := n.storage.Snapshot(ctx)
	if err != nil {
		return err
	}
	n.seen.Learn(n.nodes.Seen(ctx, n.node.ID, n.known(s))...)
	return n.seen.Verify(ctx)
}

// known returns the nodes of the table, and those that the configuration names.
func (n *Node) known(s cluster.Snapshot) []cluster.Node {
	out := s.Nodes
	for _, address := range n.cfg.Peers {
		out = append(out, cluster.Node{ID: "at " + address, Address: address})
	}
	return out
}

// keepAsking asks the other nodes from time to time. So each node knows of a failover that another one has met, and of
// batches that were written elsewhere, also when those nodes are gone.
func (n *Node) keepAsking() {
	ctx, cancel := context.WithCancel(context.Background())
	n.asking = cancel
	n.asked.Go(func() {
		for tick := time.NewTicker(n.lease / 3); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			var alive []cluster.Node
			for _, node := range n.Member().Snapshot().Nodes {
				if node.Alive {
					alive = append(alive, node)
				}
			}
			n.seen.Learn(n.nodes.Seen(ctx, n.node.ID, alive)...)
		}
	})
}
