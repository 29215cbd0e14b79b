package sim

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// runQueueLimits are the queues that runs are started into, the same ones in every universe.
var runQueueLimits = map[string]policy.QueueLimits{
	"desk":  {Concurrency: 3},
	"night": {Concurrency: 4, PerKey: 1, Fair: true},
	"post":  {Rate: policy.Rate{N: 3, Per: 20 * time.Second}, KeyRate: policy.Rate{N: 2, Per: 30 * time.Second}},
	turns:   {Concurrency: 1, Fair: true},
}

var runQueues = []string{"desk", "night", "post", turns}

// queueText makes some flows name a queue for their runs. It uses its own random numbers, so that the other flows stay
// as they are.
func (g *flowGenerator) queueText() {
	own := newRandom(uint64(g.n), 0x90e0)
	if own.chance(0.1) {
		q := core.RunQueue{Name: pick(own, runQueues), Priority: int32(own.IntN(3))}
		g.line(0, `queue: {name: %s, key: "k${{ input.n }}", priority: %d}`, q.Name, priorityIn(q))
	}
}

// runQueue chooses the queue that a client starts a run into, in some universes. It uses its own random numbers, so
// that the other universes stay as they are.
func (c *clients) runQueue() core.RunQueue {
	if !c.queueing || !c.queues.chance(0.5) {
		return core.RunQueue{}
	}
	q := core.RunQueue{Name: pick(c.queues, runQueues), Priority: int32(c.queues.IntN(3))}
	for name := range c.u.opt.RunQueues { // the one in which a test is interested
		q.Name = name
	}
	q.Priority = priorityIn(q)
	if c.queues.chance(0.7) {
		q.Key = pick(c.queues, []string{"a", "b", "c"})
	} else if q.Name == turns {
		q.Key = "a" // there are more of one key, so that the others have their turns before it
	}
	return q
}

// limitsOfRuns returns the limits that the engine is given.
func (u *universe) limitsOfRuns() map[string]policy.QueueLimits {
	out := map[string]policy.QueueLimits{}
	for name, l := range runQueueLimits {
		if other, ok := u.opt.RunQueues[name]; ok {
			l = other
		}
		out[name] = l
	}
	return out
}

// queueModel is the checker's own model of a run's state in its queue.
type queueModel struct {
	queue   core.RunQueue
	within  []string
	waits   bool      // the run waits in the queue
	entered core.Time // when it came there
	place   bool      // it has one, until it ends
	turn    turnModel
	after   time.Duration
}

// waitsForStart reports whether the run waits for its start or its queue.
func (m *runModel) waitsForStart() bool { return m.pending && !m.closing && !m.stopping }

func (m *runModel) inQueue() bool { return m.waitsForStart() && m.q.waits }

// createInQueue notes the queue of a new run.
func (m *runModel) createInQueue(rec core.RunCreated) {
	q := &m.q
	*q = queueModel{queue: rec.Queue, within: rec.Within, after: rec.Deadline.After}
	var above []string
	if parent := m.ch.accounts[rec.Parent.Run]; parent != nil {
		above = parent.model.q.within
		if name := parent.model.q.queue.Name; name != "" && !slices.Contains(above, name) {
			above = append(slices.Clone(above), name)
		}
		if !slices.Equal(above, rec.Within) {
			m.fail(Limited, "the run is within %q, its parent has places in %q", rec.Within, above)
		}
	}
	before := m.ch.accounts[rec.Chain.Previous]
	continues := before != nil && len(before.model.ends) > 0 &&
		before.model.ends[len(before.model.ends)-1] == core.RunContinued
	switch {
	case before != nil && before.model.q.queue != rec.Queue:
		m.fail(Limited, "the run is in queue %+v, the one before it was in %+v", rec.Queue, before.model.q.queue)
	case rec.Queue.Name == "":
	case slices.Contains(rec.Within, rec.Queue.Name):
		m.fail(Limited, "the run waits in queue %q for a run above it", rec.Queue.Name)
	case rec.Admitted != continues:
		m.fail(Limited, "the run has its place from the run before it: %v", rec.Admitted)
	case rec.Admitted:
		q.place = true
	default:
		m.pending = true
		if rec.StartAt == 0 {
			q.waits, q.entered = true, m.at
			m.enterTurns()
		}
	}
	want := core.Time(0)
	if rec.Deadline.After > 0 && rec.StartAt == 0 && (rec.Queue.Name == "" || rec.Admitted) {
		want = m.at.Add(rec.Deadline.After)
	}
	if rec.Deadline.After > 0 && rec.Deadline.At != want {
		m.fail(FixedDeadline, "the run's deadline is %s, not %s", offset(rec.Deadline.At), offset(want))
	}
}

// enterQueue takes in that the start of a delayed run has come, which waits for its queue.
func (m *runModel) enterQueue() {
	if !m.pending || m.q.waits || m.q.queue.Name == "" {
		m.fail(Recorded, "the run comes to its queue and did not wait for its start")
	}
	m.checkTimer(m.startAt, "a delayed run comes to its queue")
	m.q.waits, m.q.entered = true, m.at
	m.enterTurns()
}

// leavePending takes in that a run begins.
func (m *runModel) leavePending(rec core.RunStarted) {
	if !m.waitsForStart() {
		m.fail(Recorded, "the run starts twice")
	}
	want := m.limit
	if m.q.queue.Name == "" && m.told {
		m.notByTimer = true // its body was asked meanwhile, or has something to hear
	} else if m.q.queue.Name == "" {
		m.checkTimer(m.startAt, "a delayed run starts")
	} else {
		m.notByTimer = true
		m.admit()
	}
	if want == 0 && m.q.after > 0 {
		want = m.at.Add(m.q.after)
	}
	if rec.Deadline.At != want {
		m.fail(FixedDeadline, "the start makes the run's deadline %s, not %s", offset(rec.Deadline.At), offset(want))
	}
	m.warnings.limit.moved(m.limit, rec.Deadline.At, m.at)
	m.limit, m.pending = rec.Deadline.At, false
}

// admit checks that the limits of a queue, and the order of the waiting runs, allow a run to begin.
func (m *runModel) admit() {
	q, ch := &m.q, m.ch
	if !q.waits {
		m.fail(Limited, "the run begins, and did not wait in its queue")
	}
	if m.paused != 0 {
		m.fail(Limited, "a paused run begins")
	}
	limits := runQueueLimits[q.queue.Name]
	all, ofKey := ch.places(ch.appending, m.a, true)
	if limits.Concurrency > 0 && all >= limits.Concurrency {
		m.fail(Limited, "%d runs have places in queue %s already, and another one begins", all, q.queue.Name)
	}
	if limits.PerKey > 0 && ofKey >= limits.PerKey {
		m.fail(Limited, "%d runs of the key %q have places in queue %s already, and another one begins",
			ofKey, q.queue.Key, q.queue.Name)
	}
	for _, other := range ch.waiting(m.a) {
		o := &other.model.q
		sameKey := o.queue.Key == q.queue.Key
		byAge := o.entered < q.entered && (sameKey || q.queue.Name == "desk")
		comparable := sameKey || q.queue.Name == "desk" // others may wait for their own key
		if comparable && (o.queue.Priority > q.queue.Priority || o.queue.Priority == q.queue.Priority && byAge) {
			m.fail(Limited, "the run begins in queue %s before run %s, which has priority %d and came at %s",
				q.queue.Name, short(other.id), o.queue.Priority, offset(o.entered))
		}
	}
	m.checkTurn()
	q.waits, q.entered, q.place = false, 0, true
	ch.runQueueOf(ch.appending, q.queue.Name).start(ch, core.Token{Run: m.a.id, Step: core.NoStep}, serviceStart{
		at: m.at, key: q.queue.Key,
	})
}

// runQueueOf returns the node's model of the rates of a queue of runs.
func (ch *checker) runQueueOf(n *node, name string) *serviceModel {
	p := n.process
	if p.runQueues[name] == nil {
		limits := runQueueLimits[name]
		p.runQueues[name] = &serviceModel{
			name: "queue " + name, running: map[core.Token]bool{}, shared: p.shared,
			limits: policy.QueueLimits{Rate: limits.Rate, KeyRate: limits.KeyRate},
		}
	}
	return p.runQueues[name]
}

// places counts the open runs that have places in the queue of a run, as the process of a node counts them, and those
// with its key among them. A run that was set aside has given up its place, until another process carries it on:
// without those that ever were, the counts are the lowest ones that are possible.
func (ch *checker) places(n *node, a *account, lowest bool) (all, ofKey int) {
	for _, other := range ch.order {
		m := &other.model
		if other == a || m.closed || !m.q.place || m.q.queue.Name != a.model.q.queue.Name ||
			!n.counts(ch.u.partitionOf(other.id), lowest) || lowest && ch.u.bug.panicked[other.id] {
			continue
		}
		all++
		if m.q.queue.Key == a.model.q.queue.Key {
			ofKey++
		}
	}
	return all, ofKey
}

// waiting returns the runs that wait in the queue of a run in its partition, without paused or resting ones.
func (ch *checker) waiting(a *account) (out []*account) {
	for _, other := range ch.order {
		m := &other.model
		if other != a && !m.closed && m.inQueue() && m.paused == 0 && m.q.queue.Name == a.model.q.queue.Name &&
			ch.u.partitionOf(other.id) == ch.u.partitionOf(a.id) && !ch.u.bug.panicked[other.id] &&
			!ch.appending.restedThen(other) {
			out = append(out, other)
		}
	}
	return out
}

// reopenInQueue takes in that a closed run is opened again: it waits for its queue again, if it does not go on with its
// compensation.
func (m *runModel) reopenInQueue(rec core.RunReopened) {
	switch {
	case rec.Queued != (m.q.queue.Name != "" && m.closed && rec.Until == 0):
		m.fail(Limited, "the run is opened again, and waits for its queue: %v", rec.Queued)
	case !rec.Queued:
		return
	case rec.Deadline.After > 0 && rec.Deadline.At != 0:
		m.fail(FixedDeadline, "the run waits for its queue, and its own limit runs")
	}
	m.pending, m.q.waits, m.q.entered, m.q.place = true, true, m.at, false
	m.enterTurns()
	m.q.after = rec.Deadline.After
}

// checkHeldRun checks that something can still happen that may allow a run to begin which its queue holds.
func (ch *checker) checkHeldRun(n *node, a *account) {
	q := &a.model.q
	limits := runQueueLimits[q.queue.Name]
	all, ofKey := ch.places(n, a, false)
	now := ch.u.clock()
	if !n.quiet() {
		return
	}
	if limits.Concurrency > 0 && all >= limits.Concurrency || limits.PerKey > 0 && ofKey >= limits.PerKey ||
		a.state.HeldNow().Until > now {
		return
	}
	longest := max(limits.Rate.Per, limits.KeyRate.Per)
	if n.process.countsRefused(longest, now) {
		return
	}
	for _, start := range ch.runQueueOf(n, q.queue.Name).starts {
		at := start.at
		if n.process.shared {
			at = max(at, start.told)
		}
		if at.Add(longest) > now {
			return
		}
	}
	ch.u.violate(NoHang, a.id, "the run waits in queue %s, and nothing is to come that may let it begin: %s",
		q.queue.Name, a.state.HeldNow().Why())
}

// turns is the queue of runs in which the checker follows the turns of keys. Nobody has priority there, and only one
// run has a place at a time, so only its turn delays a run.
const turns = "turns"

func priorityIn(q core.RunQueue) int32 {
	if q.Name == turns {
		return 0
	}
	return q.Priority
}

// turnModel is the checker's knowledge of a run that waits for the turn of its key.
type turnModel struct {
	at     *node          // the process in which it waits: in a new one the keys' turns begin again
	ahead  int            // runs of its key that waited before it, when it came
	passed map[string]int // how many runs of each key have begun since
}

// enterTurns notes that the run reaches its queue.
func (m *runModel) enterTurns() {
	if m.q.queue.Name == turns {
		m.beginTurn()
	}
}

// beginTurn begins to count who passes the run.
func (m *runModel) beginTurn() {
	t := turnModel{at: m.ch.appending, passed: map[string]int{}}
	for _, other := range m.ch.waiting(m.a) {
		if o := &other.model.q; o.queue.Key == m.q.queue.Key && o.entered <= m.q.entered {
			t.ahead++
		}
	}
	m.q.turn = t
}

// checkTurn checks that a run which begins passes no run whose key has its turn: while a run waits, another key has at
// most one turn for each run of its own key that is before it, one for the run itself, and one that had come already.
// Appends that were refused use up turns that are not in the journal. Runs that leave the queue without having begun
// use none.
func (m *runModel) checkTurn() {
	ch := m.ch
	if m.q.queue.Name != turns || ch.appending.process.shared { // there, keys have turns in other partitions, too
		return
	}
	for _, other := range ch.waiting(m.a) {
		o := &other.model
		if o.q.queue.Key == m.q.queue.Key {
			continue
		}
		if o.q.turn.at != ch.appending {
			o.beginTurn()
		}
		o.q.turn.passed[m.q.queue.Key]++
		known := ch.appending.process.refused == 0
		if n := o.q.turn.passed[m.q.queue.Key]; known && n > o.q.turn.ahead+2 {
			m.fail(Limited, "%d runs of the key %q have begun in queue %s while run %s waits, which had %d before it "+
				"with its key %q", n, m.q.queue.Key, turns, short(other.id), o.q.turn.ahead, o.q.queue.Key)
		}
	}
}
