package sim

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// simPartition is a partition of the universe.
type simPartition struct {
	number      int
	node        *node                      // the current owner, or the last one
	formerOwner *node                      // a former owner that has not noticed yet; nil if there is none
	remote      map[core.Token]*workerTask // tasks at remote workers, until another node owns the partition
	poisoned    bool                       // the last node that died there died of the poisonous step

	// The checker's knowledge about the partition:
	owner     *node // the node that has acquired it last
	lastBatch uint64
}

// partitionOf returns the partition in which a run lives.
func (u *universe) partitionOf(run core.RunID) *simPartition {
	return u.partitions[int(core.PartitionKey(run))%len(u.partitions)]
}

// partitionOfCall returns the partition to which a client's request goes.
func (u *universe) partitionOfCall(c engine.Call) *simPartition {
	if to, ok := c.(*engine.InputCall); ok {
		return u.partitionOf(to.Run)
	}
	if to, ok := c.(*engine.ForkCall); ok {
		return u.partitions[int(core.KeyOfWorkflowID(to.Fork.WorkflowID))%len(u.partitions)]
	}
	home, named, err := engine.Home(&c.(*engine.StartCall).Start, len(u.partitions))
	if err != nil {
		u.violate(Recorded, core.RunID{}, "a client's start has no partition: %v", err)
	}
	if !named {
		home = u.IntN(len(u.partitions))
	}
	return u.partitions[home]
}

// startNode starts a process that takes over the partition.
func (p *simPartition) startNode(u *universe) {
	u.nodeCount++
	n := newNode(u, p, nil)
	p.node = n
	n.open()
}

// eachNode calls fn with each process that owns a partition, or believes it does.
func (u *universe) eachNode(fn func(n *node)) {
	for _, s := range u.partitions {
		fn(s.node)
		if s.formerOwner != nil {
			fn(s.formerOwner)
		}
	}
}

// endLease ends the lease of a partition's owner, as if its signs of life did not arrive.
func (u *universe) endLease(s *simPartition) { u.disk.Expire(s.number) }

// hint tells the owner of a partition that a message may have come. Between processes a hint may get lost. Then the
// owner reads its inbox when it renews its lease.
func (u *universe) hint(to int) {
	d := u.between(0, u.profile.callTime)
	if u.noFaults || u.chance(0.5) {
		d = 0
	}
	if !u.noFaults && u.chance(u.profile.lostHints) {
		d = u.span(leaseTerm/10, leaseTerm)
	}
	u.after(d, "a message may have come", func() { u.partitions[to].node.checkInbox() })
}

// checkInbox makes a node read its inbox.
func (n *node) checkInbox() {
	n.after(0, "a node reads its inbox", func() {
		if !n.needsOpen {
			n.p.Expect()
			n.turn()
		}
	})
}

// checkInboxesLater makes owners read their inboxes after an owner ended. That one may have stored messages without a
// hint, so all other owners read their inboxes when they renew their leases.
func (u *universe) checkInboxesLater() {
	if len(u.partitions) > 1 {
		u.after(leaseTerm/3, "leases are renewed", func() {
			for _, s := range u.partitions {
				s.node.checkInbox()
			}
		})
	}
}
