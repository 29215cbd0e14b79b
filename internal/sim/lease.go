package sim

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// monotonic returns the monotonic clock of a node's machine.
func (n *node) monotonic() time.Time { return time.UnixMicro(int64(n.u.now)) }

// owner returns how the node is called in the journal.
func (n *node) owner() string {
	if n.machine != nil {
		return n.machine.id
	}
	return n.name
}

// watchLease renews the lease when it is time, and ends the node when the lease has ended, like the engine's loop does.
func (n *node) watchLease() {
	wait := n.machine.c.term
	if left, ends := n.tenure.Left(n.monotonic()); ends {
		wait = left
	}
	if at := n.tenure.Renew(); !n.needsOpen {
		busy := time.Duration(0)
		if len(n.inFlight) > 0 {
			busy = 10 * time.Millisecond
		}
		wait = min(wait, max(at.Sub(n.u.now), busy))
	}
	n.after(wait, n.name+" looks at its lease", func() {
		switch {
		case n.leaseEnded():
			return
		case !n.needsOpen && len(n.inFlight) == 0 && n.tenure.Renew() <= n.u.now:
			n.renew()
		}
		if !n.dead {
			n.watchLease()
		}
	})
}

// renew renews the lease. The answer takes a while.
func (n *node) renew() {
	sent := n.monotonic()
	_, err := n.store.Renew(n.u.ctx, n.home.number, n.reached.epoch)
	n.u.tracef("%s renews its lease: %v", n.name, err)
	n.tenure.Schedule(n.u.now)
	if err == nil && n.machine.c.chance(0.1) && !n.u.noFaults {
		err = errDisk // the answer is lost
	}
	n.after(n.latency(), n.name+" has an answer about its lease", func() {
		switch {
		case n.needsOpen:
		case errors.Is(err, journal.ErrFenced):
			n.failed(err)
		case err == nil && n.answered(sent):
			n.p.Expect()
			n.turn()
		}
	})
}

// answered takes an answer to a sign of life. It reports whether the node goes on.
func (n *node) answered(sent time.Time) bool {
	if n.machine == nil || n.tenure.Answered(sent, n.monotonic()) {
		return true
	}
	n.leaseEnded()
	return false
}

// leaseEnded ends the node if its lease has ended by its own clock, and reports whether it did.
func (n *node) leaseEnded() bool {
	if n.machine == nil || n.frozen > n.u.now || !n.tenure.Ended(n.monotonic()) {
		return false
	}
	n.u.tracef("the lease of %s has ended", n.name)
	n.machine.c.ended++
	n.forget(engine.ErrLeaseEnded)
	n.shut(engine.ErrLeaseEnded)
	return true
}

// shut ends a node that has lost its partition.
func (n *node) shut(err error) {
	if n.machine != nil {
		n.p.ShutShared(err)
	} else {
		n.p.Shut(err)
	}
	n.endFenced()
}

// give gives the partition back when everything is saved.
func (n *node) give() {
	if n.frozen > n.u.now {
		return
	}
	n.giving = true
	n.finish()
}

// finish saves the rest, and then gives the partition back.
func (n *node) finish() {
	if !n.needsOpen {
		n.p.Flush()
		n.cut()
		if n.dead || !n.needsOpen && (len(n.inFlight) > 0 || n.p.Pending() > 0) {
			return
		}
	}
	n.u.tracef("%s gives its partition back", n.name)
	n.machine.c.given++
	n.p.ShutShared(errMoved)
	_ = n.p.Release(n.u.ctx) // else the lease ends on its own
	n.endFenced()
	n.machine.c.look()
}

// planFaults puts on the agenda what happens to the machines of a cluster.
func (c *machines) planFaults() {
	u := c.u
	length := u.end.Sub(epoch)
	long := func() core.Time { return u.now.Add(c.span(c.term/4, 4*c.term)) }
	some := func(do func(m *machine)) func() {
		return func() {
			if len(c.up) > 0 {
				do(pick(c.random, c.up))
			}
		}
	}
	for _, f := range []struct {
		most int
		what string
		do   func()
	}{
		{2, "one more machine comes", func() {
			if len(c.up) < 4 {
				c.come()
			}
		}},
		{2, "a machine drains", some(func(m *machine) { _, _ = m.Ask(u.ctx, m.id, true) })},
		{1, "an operator moves a partition", some(func(m *machine) {
			p := c.IntN(len(u.partitions))
			_, _ = m.Pin(u.ctx, p, m.id)
			u.after(c.span(c.term, 8*c.term), "it may be anywhere again", func() { _, _ = m.Unpin(u.ctx, p) })
		})},
		{1, "a machine dies", some(func(m *machine) { m.die("with its machine") })},
		{3, "a machine stands still", some(func(m *machine) {
			if m.faint = c.span(c.term/2, 4*c.term); c.chance(0.4) {
				m.freeze(u.now.Add(m.faint))
			}
		})},
		{3, "a machine is cut off from the database", some(func(m *machine) { m.cut = long() })},
		{1, "the database fails over", func() { c.down = u.now.Add(c.span(time.Millisecond, 2*c.term)) }},
	} {
		for range c.IntN(f.most + 1) {
			u.agenda.add(epoch.Add(c.between(0, length)), f.what, func() {
				if !u.noFaults {
					f.do()
				}
			})
		}
	}
}

// freeze stops a machine, as when its process is stopped by a signal.
func (m *machine) freeze(until core.Time) {
	m.frozen, m.faint = until, 0
	for _, n := range m.nodes {
		n.frozen = until
	}
	m.c.u.tracef("%s stands still until %s", m.id, offset(until))
	m.c.u.agenda.add(until, m.id+" goes on", func() {
		for _, p := range m.Owned() {
			n := m.nodes[p]
			if n != nil && m.c.chance(0.5) {
				n.goOn() // callers that asked the database go on before the loop does
			}
			if n != nil && !n.dead {
				n.turn()
			}
		}
		m.act()
	})
}

// maybeFaint stops the machine of a node while an append is under way, if that was planned.
func (n *node) maybeFaint(chance float64) {
	if m := n.machine; m != nil && m.faint > 0 && !n.u.noFaults && m.c.chance(chance) {
		m.freeze(n.u.now.Add(m.faint))
	}
}

// wait calls do after a while. If the node's machine is stopped then, it does so when the machine goes on.
func (n *node) wait(d time.Duration, what string, do func()) {
	n.u.after(d, what, func() {
		if n.machine == nil || n.frozen <= n.u.now {
			do()
			return
		}
		n.held = do
		n.u.agenda.add(n.frozen, what, n.goOn)
	})
}

// goOn does what was due while the machine was stopped.
func (n *node) goOn() {
	if do := n.held; do != nil {
		n.held = nil
		do()
	}
}

// endFaults makes the database reachable again, and lets a machine come if there is none.
func (c *machines) endFaults() {
	c.down = 0
	for _, m := range c.up {
		m.cut = 0
	}
	if len(c.up) == 0 {
		c.come()
	}
}
