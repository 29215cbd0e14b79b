package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/engine/clock"
	"github.com/pawl-dev/pawl/internal/journal"
)

// node is a process that owns a partition, or believes it does. It drives the engine like the engine's own loop does.
type node struct {
	u       *universe
	home    *simPartition
	process *process
	machine *machine // the machine of a cluster; nil if there is none
	reached *reached // the journal of a machine
	tenure  clock.Tenure
	changed bool // something happened to the node since its last check
	name    string
	p       *engine.Partition
	store   journal.Journal
	workers *workers
	host    *host
	sdk     *sdkHost
	inbox   []func() // the calls of bodies to the engine, in order

	inFlight    []*journal.Batch // batches that were cut; the first is on its way to the disk
	stored      bool             // the first is stored and not acknowledged yet
	dead        bool
	giving      bool      // the node saves the rest, to give its partition back
	sentAt      time.Time // when the first batch in flight was sent
	held        func()    // an append, or the answer to one, that waits until the machine goes on; nil if there is none
	needsOpen   bool      // an append failed: the partition must be opened again
	frozen      core.Time // the process does nothing until then
	more        bool      // Tick has more to do
	heldReports []func()  // reports that wait until the partition is open again
	late        lateWindow
	lastTick    core.Time // when the node last woke on its own

	// The next fields are for the check of the order of timers.
	spans         []tickSpan
	confirmed     int // entries of acknowledged batches
	storedEntries int
	tickedAt      core.Time // the instant of the last Tick that left nothing to do

	// woken counts how often the node was told to look for slots, or for runs to carry on, and has not done so yet.
	woken       int
	carriedFrom map[core.RunID]int // entries that were computed before a family went on, by the run at its top
	before      map[int]int        // entries that were computed when the process took over the partition
	lookedAt    bool               // the breakers that are open are known
}

// newNode makes an owner of a partition, with its workers and bodies.
func newNode(u *universe, s *simPartition, m *machine) *node {
	n := &node{u: u, home: s, store: u.store, before: map[int]int{}, machine: m}
	n.process = u.processOf(n, u.IntN(u.profile.processes))
	n.name = fmt.Sprintf("node%d of partition %d", u.nodeCount, s.number)
	if m != nil {
		n.reached = &reached{Journal: u.store, m: m}
		n.store = n.reached
		n.name = fmt.Sprintf("%s as %s", m.id, n.name)
	}
	n.workers, n.host, n.sdk = newWorkers(n), newHost(n), newSDKHost(n)
	n.p = engine.NewPartition(n.u.config(n))
	return n
}

// up reports whether the node serves requests.
func (n *node) up() bool { return !n.dead && !n.giving && !n.needsOpen && n.frozen <= n.u.now }

// open takes over the partition and continues its runs.
func (n *node) open() {
	if n.dead || n.leaseEnded() {
		return
	}
	if n.machine != nil && n.frozen > n.u.now {
		n.u.agenda.add(n.frozen, n.name+" opens again", n.open)
		return
	}
	err := n.tryOpen()
	if errors.Is(err, journal.ErrFenced) { // another process owns it by now
		n.shut(err)
		return
	}
	if errors.Is(err, journal.ErrHeld) {
		n.u.endLease(n.home) // the lease belongs to a process that is gone
	}
	if err == nil && n == n.home.formerOwner {
		n.u.violate(Fencing, core.RunID{}, "%s took the partition back from %s", n.name, n.home.node.name)
	}
	if err != nil {
		n.needsOpen = true
		n.u.after(n.u.span(time.Millisecond, 10*time.Second), n.name+" opens again", n.open)
		return
	}
	n.afterOpen()
}

func (n *node) tryOpen() error {
	n.u.opening = true
	n.u.opens++
	err := n.p.Open(n.u.ctx, n.u.clock())
	n.u.opening = false
	n.u.tracef("%s opens: %v", n.name, err)
	return err
}

// afterOpen goes on with the partition that was opened.
func (n *node) afterOpen() {
	n.u.checker.noteOwner(n)
	n.needsOpen = false
	for _, say := range n.heldReports {
		n.u.after(n.u.between(0, 100*time.Millisecond), "a report that waited is sent", say)
	}
	n.heldReports = nil
	n.after(n.u.between(0, time.Millisecond), "what bodies told the engine is taken", func() {
		for len(n.inbox) > 0 && !n.dead && !n.needsOpen {
			n.takeOne()
		}
	})
	n.p.Probe()
	if !n.u.noFaults && n.u.chance(n.u.profile.crashAtBoundary*5) {
		n.crash("during recovery")
		return
	}
	n.turn()
}

// wake returns when the node next acts on its own.
func (n *node) wake() (core.Time, bool) {
	if n.dead || n.needsOpen || n.giving {
		return 0, false
	}
	if n.more {
		return max(n.u.now, n.frozen), true
	}
	next := n.p.Next()
	if next == 0 {
		return 0, false
	}
	at := max(next.Add(-n.u.clockError), n.u.now, n.frozen)
	if at <= n.lastTick && len(n.inFlight) > 0 {
		return 0, false // it waits for the disk
	}
	return at, true
}

// tick wakes the node by its own timer.
func (n *node) tick() {
	before, seq := n.p.Next(), n.u.checker.batches
	n.u.tracef("%s ticks", n.name)
	n.turn()
	idle := !n.dead && !n.needsOpen && !n.more && n.lastTick == n.u.now && len(n.inFlight) == 0
	due := n.p.Next() == before && before.Add(-n.u.clockError) <= n.u.now
	if idle && due && seq == n.u.checker.batches {
		n.u.violate(NoHang, n.u.checker.anyOpen(), "something is due at %s, and the partition does nothing",
			offset(before))
	}
	n.lastTick = n.u.now
}

// turn plays one round of the engine's loop.
func (n *node) turn() {
	if n.dead || n.needsOpen {
		return
	}
	if n.frozen > n.u.now || n.leaseEnded() {
		return
	}
	if n.giving {
		n.finish()
		return
	}
	n.changed = true
	now := n.u.clock()
	n.readWindow(now)
	n.fetch(now)
	mark := n.u.checker.ticking(n)
	n.more = n.p.Tick(now)
	n.u.checker.ticked(n, mark)
	n.cut()
}

// cut cuts batches while the pipeline has room.
func (n *node) cut() {
	for !n.dead && !n.needsOpen && len(n.inFlight) < n.u.profile.pipelineDepth {
		if err := n.p.ReadError(); err != nil {
			if len(n.inFlight) == 0 {
				n.failed(err)
			}
			return
		}
		b := n.p.Cut(n.u.clock())
		if b == nil {
			return
		}
		n.inFlight = append(n.inFlight, b)
		if len(n.inFlight) == 1 {
			n.send()
		}
	}
}

// send sends the first batch to the disk.
func (n *node) send() {
	if n.atBoundary("before an append") {
		return
	}
	n.sentAt = n.monotonic()
	if n.u.profile.diskTime == 0 {
		n.append(n.inFlight[0])
		return
	}
	b := n.inFlight[0]
	n.maybeFaint(0.2)
	n.wait(n.latency(), n.name+" appends", func() { n.append(b) })
}

func (n *node) latency() time.Duration {
	if n.u.chance(0.3) {
		return 0
	}
	return n.u.between(0, n.u.profile.diskTime)
}

func (n *node) append(b *journal.Batch) {
	if n.dead || len(n.inFlight) == 0 || n.inFlight[0] != b {
		return
	}
	n.changed = true
	n.u.checker.appending = n
	err := n.store.Append(n.u.ctx, b)
	n.u.tracef("%s append of batch %d, %d bytes: %v", n.name, b.Seq, len(b.Encoded), err)
	if err != nil {
		n.failed(err)
		return
	}
	if n.atBoundary("before an acknowledgement") {
		return
	}
	n.stored = true
	n.maybeFaint(0.5)
	n.wait(n.latency(), n.name+" is acknowledged", func() { n.acknowledged(b) })
}

func (n *node) acknowledged(b *journal.Batch) {
	if n.dead || len(n.inFlight) == 0 || n.inFlight[0] != b {
		return
	}
	n.changed, n.stored = true, false
	if !n.answered(n.sentAt) {
		return
	}
	n.tenure.Schedule(n.u.now)
	n.inFlight = n.inFlight[1:]
	before := n.p.Pending()
	n.p.Committed(n.u.clock())
	n.confirmed += before - n.p.Pending()
	if n.atBoundary("after an acknowledgement") {
		return
	}
	if len(n.inFlight) > 0 {
		n.send()
	}
	n.turn()
}

// failed handles a failed append like the engine's loop: it drops the memory and opens the partition again later. If
// another process has taken over, the node ends instead.
func (n *node) failed(err error) {
	n.forget(err)
	switch {
	case errors.Is(err, journal.ErrFenced):
		n.shut(err)
	case n.giving:
		n.needsOpen = true
		n.finish()
	default:
		n.needsOpen = true
		n.u.after(n.u.span(time.Millisecond, 5*time.Second), n.name+" opens again", n.open)
	}
}

// forget drops the memory of the partition.
func (n *node) forget(err error) {
	n.inFlight, n.stored, n.more, n.late = nil, false, false, lateWindow{}
	n.spans, n.confirmed, n.storedEntries = nil, 0, 0
	clear(n.before)
	clear(n.carriedFrom)
	n.ahead()
	n.p.Failed(err)
}

// atBoundary handles a boundary of a commit, where the process may die. It reports whether it did.
func (n *node) atBoundary(where string) bool {
	u := n.u
	u.boundaries++
	if u.opt.CrashAt == u.boundaries || (u.opt.CrashAt == 0 && !u.noFaults && u.chance(u.profile.crashAtBoundary)) {
		n.crash(where)
		return true
	}
	return false
}

// crash ends the process. Everything that is not durable is lost, and its workers end.
func (n *node) crash(where string) {
	u := n.u
	if n.dead {
		return
	}
	if n == n.home.formerOwner {
		n.endFenced()
		return
	}
	u.crashes++
	if n.machine != nil {
		n.machine.die(where)
		return
	}
	n.dieWith(where, func(other *node) bool { return other.diesWith(n) })
}

// dieWith ends a node and others of its process. It returns those that were alive.
func (n *node) dieWith(where string, also func(other *node) bool) (died []*node) {
	for _, s := range n.u.partitions {
		if other := s.node; other == n || also(other) {
			if !other.dead {
				died = append(died, other)
			}
			other.die(where)
		}
		if f := s.formerOwner; f != nil && f.process.shared && f.process == n.process {
			f.endFenced()
		}
	}
	return died
}

// die ends one partition of a process that crashes. Another process takes over the partition later.
func (n *node) die(where string) {
	u := n.u
	if n.dead {
		return
	}
	u.tracef("%s dies %s", n.name, where)
	n.dead, n.home.poisoned = true, false
	n.inFlight = nil
	u.checkInboxesLater()
	n.workers.kill()
	n.host.kill()
	if n.home.formerOwner != nil {
		n.home.formerOwner.endFenced() // it worked on the same file
	}
	u.clients.nodeEnded(n)
	if n.machine != nil {
		delete(n.machine.nodes, n.home.number)
		return
	}
	down := u.span(time.Millisecond, time.Minute)
	if !u.noFaults && u.chance(0.1) { // a poisonous step kills after the faults, too, and clients do not try for hours
		down = u.span(time.Minute, 6*time.Hour)
	}
	u.after(down, "another process starts", func() {
		if n.home.node == n && n.dead {
			n.home.startNode(u)
		}
	})
}

// endFenced ends a process that no longer owns its partition.
func (n *node) endFenced() {
	n.dead, n.inFlight = true, nil
	n.u.checkInboxesLater()
	n.workers.kill()
	n.host.kill()
	n.u.clients.nodeEnded(n)
	if n.home.formerOwner == n {
		n.home.formerOwner = nil
	}
	if m := n.machine; m != nil {
		delete(m.nodes, n.home.number)
	}
	n.losePartition()
}

// idle reports whether nothing is on its way to the disk.
func (n *node) idle() bool { return n.up() && len(n.inFlight) == 0 && n.p.Pending() == 0 }

// call gives the engine a client's request.
func (n *node) call(c engine.Call) {
	n.p.Handle(c, n.u.clock())
	n.turn()
}

// report gives the engine a worker's report. The worker keeps the report while the process cannot take it.
func (n *node) report(run core.RunID, in core.Input) {
	switch {
	case n.dead:
	case n.frozen > n.u.now:
		n.u.agenda.add(n.frozen, "a report that waited is sent", func() { n.report(run, in) })
	case n.host.takeEnd(run, in): // the body reports it
	case n.needsOpen:
		n.heldReports = append(n.heldReports, func() { n.report(run, in) })
	default:
		n.u.tracef("%s gets a report of %s: %s", n.name, short(run), inputText(in))
		n.workers.forget(run, in)
		n.p.Report(run, in, n.u.clock())
		if n.workers.forget(run, in) { // the engine has asked for it only when it read the run for this report
			n.match("", remoteType) // its worker has nothing to do, and reports that
		}
		n.turn()
	}
}

// after calls do in the process after a while. If the process has died by then, nothing happens.
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

// enqueue puts a message of a body to the engine into the inbox. The engine takes it later, in order.
func (n *node) enqueue(what string, do func()) {
	n.inbox = append(n.inbox, do)
	d := n.u.between(0, 100*time.Microsecond)
	switch {
	case n.u.noFaults || n.u.chance(0.5):
		d = 0
	case n.u.chance(n.u.profile.lateLoop):
		d = n.u.between(0, max(n.u.profile.callTime, n.u.profile.diskTime, 5*time.Millisecond))
	}
	n.after(d, what, n.takeOne)
}

// takeOne takes the first item of the inbox.
func (n *node) takeOne() {
	if n.needsOpen || len(n.inbox) == 0 {
		return
	}
	do := n.inbox[0]
	n.inbox = n.inbox[1:]
	do()
	n.turn()
}

// check runs the checks, unless one has failed already.
func (n *node) check() {
	if n.u.violation == nil {
		n.u.checker.check(n)
	}
}

// fetch reads the partition's messages if it is time. They arrive later, and some that were taken come again.
func (n *node) fetch(now core.Time) {
	f, ok := n.p.Fetch(now)
	if !ok {
		return
	}
	u := n.u
	read := func() {
		messages, err := n.store.Inbox(u.ctx, n.home.number, f.After, f.Limit)
		if !u.noFaults && u.chance(u.profile.repeatedMessages) {
			messages = append(u.checker.takenMessages(n.home.number), messages...)
		}
		take := func() {
			n.p.Fetched(f, messages, err, u.clock())
			n.turn()
		}
		if u.profile.diskTime == 0 {
			n.p.Fetched(f, messages, err, u.clock())
		} else {
			n.after(n.latency(), n.name+" takes its messages", take)
		}
	}
	if u.profile.diskTime == 0 {
		read()
	} else {
		n.after(n.latency(), n.name+" reads its inbox", read)
	}
}
