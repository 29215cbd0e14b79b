package sim

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// seat is a partition's place in the universe.
type seat struct {
	partition int
	node      *node // the current owner, or the last one
	poisoned  bool  // its process died of the poisonous step
	zombie    *node // a former owner that does not know it yet

	// What the book knows of the partition.
	owner *node // who took it last
	seq   uint64
}

// seatOf returns the seat of the partition in which a run lives.
func (u *universe) seatOf(run core.RunID) *seat {
	return u.seats[int(core.PartitionKey(run))%len(u.seats)]
}

// seatOfCall returns where a client's request goes.
func (u *universe) seatOfCall(c *engine.Call) *seat {
	if c.Op != engine.CallStart {
		return u.seatOf(c.Run)
	}
	home, named, err := engine.Home(&c.Start, len(u.seats))
	if err != nil {
		u.violate(Recorded, core.RunID{}, "a client's start has no home: %v", err)
	}
	if !named {
		home = u.IntN(len(u.seats))
	}
	return u.seats[home]
}

// boot starts a process on what is durable of a partition. Where the storage fails it dies and another one is started.
func (s *seat) boot(u *universe) {
	u.nodes++
	n := newNode(u, s, "node")
	s.node = n
	n.open()
}

// owners calls fn with each process that owns a partition, or believes it does.
func (u *universe) owners(fn func(n *node)) {
	for _, s := range u.seats {
		fn(s.node)
		if s.zombie != nil {
			fn(s.zombie)
		}
	}
}

// endLease lets an owner's lease end, as where its signs of life do not arrive.
func (u *universe) endLease(s *seat) { u.disk.Expire(s.partition) }

// hint tells the owner of a partition that a message may have come. Between processes that gets lost now and then; then the
// owner looks by itself when it renews its lease.
func (u *universe) hint(to int) {
	d := u.between(0, u.mood.lag)
	if u.calm || u.chance(0.5) {
		d = 0
	}
	if !u.calm && u.chance(u.mood.lostHints) {
		d = u.span(leaseTerm/10, leaseTerm)
	}
	u.after(d, "a message may have come", func() { u.seats[to].node.look() })
}

// look has a node look into its inbox.
func (n *node) look() {
	n.after(0, "the inbox is looked at", func() {
		if !n.down {
			n.p.Expect()
			n.turn()
		}
	})
}

// silence is the end of an owner that may have stored messages and told nobody: all others look when they renew their leases.
func (u *universe) silence() {
	if len(u.seats) > 1 {
		u.after(leaseTerm/3, "leases are renewed", func() {
			for _, s := range u.seats {
				s.node.look()
			}
		})
	}
}
