package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// node is a process that owns the partition, or believes it does: it drives the engine as its loop does.
type node struct {
	u       *universe
	seat    *seat
	process int  // which dies as a whole
	changed bool // something happened to it since it was last checked
	name    string
	p       *engine.Partition
	store   journal.Journal
	workers *workers
	host    *host
	inbox   []func() // what bodies have to say, in order

	flight  []*journal.Batch // cut; the first is on its way to the disk
	acking  bool             // the first is stored and not acknowledged yet
	dead    bool
	down    bool      // a failed append: to be opened again
	frozen  core.Time // it does nothing until then
	more    bool      // Tick has more to do
	waiting []func()  // reports, until it is open again
	asked   core.Time // the instant at which the node last woke by itself

	// What its ticks made, for the check of their order.
	spans         []tickSpan
	confirmed     int // entries of acknowledged batches
	storedEntries int
	tickedAt      core.Time // the instant of the last Tick that left nothing to do
}

// newNode makes an owner of a partition, with its workers and bodies.
func newNode(u *universe, s *seat, name string) *node {
	n := &node{u: u, seat: s, process: u.IntN(u.mood.processes), store: u.store}
	n.name = fmt.Sprintf("%s%d of partition %d", name, u.nodes, s.partition)
	n.workers, n.host = newWorkers(n), newHost(n)
	n.p = engine.NewPartition(n.u.config(n))
	return n
}

// up reports whether the node serves requests.
func (n *node) up() bool { return !n.dead && !n.down && n.frozen <= n.u.now }

// open takes the partition over and goes on.
func (n *node) open() {
	if n.dead {
		return
	}
	n.u.opening = true
	err := n.p.Open(n.u.ctx, n.u.clock())
	n.u.opening = false
	n.u.say("%s opens: %v", n.name, err)
	if errors.Is(err, journal.ErrFenced) { // somebody else owns it by now
		n.p.Shut(err)
		n.vanish()
		return
	}
	if errors.Is(err, journal.ErrHeld) {
		n.u.endLease(n.seat) // of a process that is gone
	}
	if err == nil && n == n.seat.zombie {
		n.u.violate(Fencing, core.RunID{}, "%s took the partition back from %s", n.name, n.seat.node.name)
	}
	if err != nil {
		n.down = true
		n.u.after(n.u.span(time.Millisecond, 10*time.Second), n.name+" opens again", n.open)
		return
	}
	n.u.book.acquired(n)
	n.down = false
	for _, say := range n.waiting {
		n.u.after(n.u.between(0, 100*time.Millisecond), "what waited is said", say)
	}
	n.waiting = nil
	n.after(n.u.between(0, time.Millisecond), "what was put is taken", func() {
		for len(n.inbox) > 0 && !n.dead && !n.down {
			n.take()
		}
	})
	n.p.Probe()
	if !n.u.calm && n.u.chance(n.u.mood.crashAtBoundary*5) {
		n.crash("during recovery")
		return
	}
	n.turn()
}

// wake returns when the node does something by itself.
func (n *node) wake() (core.Time, bool) {
	if n.dead || n.down {
		return 0, false
	}
	if n.more {
		return max(n.u.now, n.frozen), true
	}
	next := n.p.Next()
	if next == 0 {
		return 0, false
	}
	at := max(next.Add(-n.u.skew), n.u.now, n.frozen)
	if at <= n.asked && len(n.flight) > 0 {
		return 0, false // it waits for the disk
	}
	return at, true
}

// tick is the node's own wake.
func (n *node) tick() {
	before, seq := n.p.Next(), n.u.book.batches
	n.u.say("%s ticks", n.name)
	n.turn()
	if !n.dead && !n.down && !n.more && n.asked == n.u.now && len(n.flight) == 0 && n.p.Next() == before && before.Add(-n.u.skew) <= n.u.now && seq == n.u.book.batches {
		n.u.violate(NoHang, n.u.book.anyOpen(), "the partition wants attention at %s and does nothing with it", offset(before))
	}
	n.asked = n.u.now
}

// turn is one round of the engine's loop.
func (n *node) turn() {
	if n.dead || n.down {
		return
	}
	if n.frozen > n.u.now {
		return
	}
	n.changed = true
	now := n.u.clock()
	n.p.Refill(now)
	n.fetch(now)
	mark := n.u.book.ticking(n)
	n.more = n.p.Tick(now)
	n.u.book.ticked(n, mark)
	n.cut()
}

// cut takes batches as far as the pipeline has room.
func (n *node) cut() {
	for !n.dead && !n.down && len(n.flight) < n.u.mood.depth {
		if err := n.p.Unread(); err != nil {
			if len(n.flight) == 0 {
				n.failed(err)
			}
			return
		}
		b := n.p.Cut(n.u.clock())
		if b == nil {
			return
		}
		n.flight = append(n.flight, b)
		if len(n.flight) == 1 {
			n.send()
		}
	}
}

// send brings the first batch on its way to the disk.
func (n *node) send() {
	if n.at("before an append") {
		return
	}
	if n.u.mood.latency == 0 {
		n.append(n.flight[0])
		return
	}
	b := n.flight[0]
	n.u.after(n.latency(), n.name+" appends", func() { n.append(b) })
}

func (n *node) latency() time.Duration {
	if n.u.chance(0.3) {
		return 0
	}
	return n.u.between(0, n.u.mood.latency)
}

func (n *node) append(b *journal.Batch) {
	if n.dead || len(n.flight) == 0 || n.flight[0] != b {
		return
	}
	n.changed = true
	n.u.book.writer = n
	err := n.store.Append(n.u.ctx, b)
	n.u.say("%s append of batch %d, %d bytes: %v", n.name, b.Seq, len(b.Encoded), err)
	if err != nil {
		n.failed(err)
		return
	}
	if n.at("before an acknowledgement") {
		return
	}
	n.acking = true
	n.u.after(n.latency(), n.name+" is acknowledged", func() { n.acknowledged(b) })
}

func (n *node) acknowledged(b *journal.Batch) {
	if n.dead || len(n.flight) == 0 || n.flight[0] != b {
		return
	}
	n.changed, n.acking = true, false
	n.flight = n.flight[1:]
	before := n.p.Pending()
	n.p.Committed(n.u.clock())
	n.confirmed += before - n.p.Pending()
	if n.at("after an acknowledgement") {
		return
	}
	if len(n.flight) > 0 {
		n.send()
	}
	n.turn()
}

// failed takes a failed append as the engine's loop does: forget, and open again, unless somebody else has taken over.
func (n *node) failed(err error) {
	n.flight, n.acking, n.more = nil, false, false
	n.spans, n.confirmed, n.storedEntries = nil, 0, 0
	n.p.Failed(err)
	if errors.Is(err, journal.ErrFenced) {
		n.p.Shut(err)
		n.vanish()
		return
	}
	n.down = true
	n.u.after(n.u.span(time.Millisecond, 5*time.Second), n.name+" opens again", n.open)
}

// at is a boundary of a commit: the process may die here. It reports whether it did.
func (n *node) at(where string) bool {
	u := n.u
	u.boundary++
	if u.opt.CrashAt == u.boundary || (u.opt.CrashAt == 0 && !u.calm && u.chance(u.mood.crashAtBoundary)) {
		n.crash(where)
		return true
	}
	return false
}

// crash ends the process. What was not durable is gone, and so are its workers.
func (n *node) crash(where string) {
	u := n.u
	if n.dead {
		return
	}
	if n == n.seat.zombie {
		n.vanish()
		return
	}
	u.crashes++
	for _, s := range u.seats {
		if other := s.node; other == n || other.process == n.process && u.chance(0.8) {
			other.die(where)
		}
	}
}

// die ends the part of a process that owns a partition. Another process takes the partition over.
func (n *node) die(where string) {
	u := n.u
	if n.dead {
		return
	}
	u.say("%s dies %s", n.name, where)
	n.dead, n.seat.poisoned = true, false
	n.flight = nil
	u.silence()
	n.workers.kill()
	n.host.kill()
	if n.seat.zombie != nil {
		n.seat.zombie.vanish() // it held the same file
	}
	u.clients.lost(n)
	down := u.span(time.Millisecond, time.Minute)
	if u.chance(0.1) {
		down = u.span(time.Minute, 6*time.Hour)
	}
	u.after(down, "another process starts", func() {
		if n.seat.node == n && n.dead {
			n.seat.boot(u)
		}
	})
}

// vanish ends a process that has been taken over.
func (n *node) vanish() {
	n.dead, n.flight = true, nil
	n.u.silence()
	n.workers.kill()
	n.host.kill()
	n.u.clients.lost(n)
	if n.seat.zombie == n {
		n.seat.zombie = nil
	}
}

// quiet reports whether nothing is on its way to the disk.
func (n *node) quiet() bool { return n.up() && len(n.flight) == 0 && n.p.Pending() == 0 }

// call hands a client's request over. Nothing is answered by a process that is gone.
func (n *node) call(c *engine.Call) {
	n.p.Handle(c, n.u.clock())
	n.turn()
}

// report hands a worker's report over. A worker keeps what it has to say until somebody listens.
func (n *node) report(run core.RunID, in core.Input) {
	switch {
	case n.dead:
	case n.frozen > n.u.now:
		n.u.agenda.add(n.frozen, "a report that waited", func() { n.report(run, in) })
	case n.host.ended(run, in): // its body says it
	case n.down:
		n.waiting = append(n.waiting, func() { n.report(run, in) })
	default:
		n.u.say("%s hears of %s: %s", n.name, short(run), inputText(in))
		n.workers.told(run, in)
		n.p.Report(run, in, n.u.clock())
		n.turn()
	}
}

// after lets something happen in the process after a while, if that is still there.
func (n *node) after(d time.Duration, what string, do func()) {
	n.u.after(d, what, func() {
		switch {
		case n.dead:
		case n.frozen > n.u.now:
			n.u.agenda.add(n.frozen, what, func() { n.after(0, what, do) })
		default:
			do()
		}
	})
}

// put tells the engine something that its loop takes in after what was put before.
func (n *node) put(what string, do func()) {
	n.inbox = append(n.inbox, do)
	d := n.u.between(0, 100*time.Microsecond)
	switch {
	case n.u.calm || n.u.chance(0.5):
		d = 0
	case n.u.chance(n.u.mood.busy):
		d = n.u.between(0, max(n.u.mood.lag, n.u.mood.latency, 5*time.Millisecond))
	}
	n.after(d, what, n.take)
}

// take takes in the first thing that was put and not taken yet.
func (n *node) take() {
	if n.down || len(n.inbox) == 0 {
		return
	}
	do := n.inbox[0]
	n.inbox = n.inbox[1:]
	do()
	n.turn()
}

// check asks whether all is well, when there is somebody to ask.
func (n *node) check() {
	if n.u.broken == nil {
		n.u.book.check(n)
	}
}

// fetch reads the inbox, if it is time. The messages arrive later, and some again that were taken.
func (n *node) fetch(now core.Time) {
	f, ok := n.p.Fetch(now)
	if !ok {
		return
	}
	u := n.u
	read := func() {
		messages, err := n.store.Inbox(u.ctx, n.seat.partition, f.After, f.Limit)
		if !u.calm && u.chance(u.mood.doubled) {
			messages = append(u.book.someSent(n.seat.partition), messages...)
		}
		take := func() {
			n.p.Fetched(f, messages, err, u.clock())
			n.turn()
		}
		if u.mood.latency == 0 {
			n.p.Fetched(f, messages, err, u.clock())
		} else {
			n.after(n.latency(), n.name+" takes its messages", take)
		}
	}
	if u.mood.latency == 0 {
		read()
	} else {
		n.after(n.latency(), n.name+" reads its inbox", read)
	}
}
