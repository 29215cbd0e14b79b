package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/journal/memory"
)

// epoch is when every universe begins.
const epoch core.Time = 1_800_000_000_000_000

// universe is one seed's world.
type universe struct {
	random
	seed  uint64
	opt   Options
	ctx   context.Context
	trace io.Writer

	agenda agenda
	now    core.Time     // true time
	skew   time.Duration // what clocks show beyond it
	steps  int
	end    core.Time // of clients and faults
	calm   bool      // they have ended: workers behave, disks have room

	disk     *memory.Journal // the storage
	store    journal.Journal // what nodes use, perhaps wrapped
	seats    []*seat         // by partition
	opening  bool            // a node is in Open
	nodes    int
	mood     mood
	full     core.Time // the disk is full until then
	boundary int       // boundaries of commits passed so far

	executing map[place]*job // what workers really do, over all nodes
	book      *book
	bug       *bug
	poison    *poison
	clients   *clients
	crashes   int
	broken    *Violation
}

// place is a step of a run: where at most one attempt may execute.
type place struct {
	run  core.RunID
	step core.StepID
}

// mood is what kind of a universe it is: how often what happens.
type mood struct {
	crashAtBoundary float64 // chance at each boundary of a commit
	uncertain       float64 // chance that an append is stored and answered with an error
	refused         float64 // chance that an append is refused
	latency         time.Duration
	depth           int // batches cut before the first is durable
	slots           map[string]int
	lag             time.Duration // of calls and reports on their way
	horizon         time.Duration
	bad             float64 // how often work does not succeed
	hang            float64
	forget          float64       // reports that have to be repeated, repeated ones
	stubborn        float64       // work that stops late or is abandoned
	bodied          float64       // runs that a body decides
	think           time.Duration // how long a body computes at most before it goes on
	slow            float64       // branches that compute longer than the others
	busy            float64       // how often the engine's loop comes late to what bodies say
	meddle          float64       // how often somebody operates on a run just when its body decides
	linger          time.Duration // how long a body stays that waits
	partitions      int
	processes       int     // which share the partitions
	lostHints       float64 // hints that a message has come, which nobody hears
	doubled         float64 // readings of the inbox that find messages again which were taken
}

func newUniverse(seed uint64, opt Options) *universe {
	u := &universe{
		random: newRandom(seed, 1), seed: seed, opt: opt, ctx: context.Background(), trace: opt.Trace, now: epoch,
		executing: map[place]*job{},
	}
	u.book = newBook(u)
	u.bug = newBug(u)
	u.poison = newPoison(u)
	u.setMood()
	u.disk = memory.NewPartitions(u.mood.partitions)
	u.disk.Fault = u.fault
	u.disk.Term, u.disk.Now = leaseTerm, func() core.Time { return epoch } // a lease ends where the universe says so
	u.end = epoch.Add(u.span(10*time.Second, opt.Span))
	u.clients = newClients(u)
	u.wrapStore()
	for n := range u.mood.partitions {
		u.seats = append(u.seats, &seat{partition: n})
	}
	for _, s := range u.seats {
		u.nodes++
		s.node = newNode(u, s, "node")
	}
	for _, s := range u.seats {
		s.node.open()
	}
	u.clients.plan()
	if !opt.Calm {
		u.planFaults()
	}
	return u
}

func (u *universe) setMood() {
	m := &u.mood
	m.crashAtBoundary = pick(u.random, []float64{0, 0, 0.003, 0.01, 0.04})
	m.uncertain = pick(u.random, []float64{0, 0, 0.01, 0.05})
	m.refused = pick(u.random, []float64{0, 0, 0.02, 0.1})
	m.latency = pick(u.random, []time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond, 200 * time.Millisecond})
	m.lag = pick(u.random, []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 2 * time.Second})
	m.horizon = pick(u.random, []time.Duration{0, time.Second, 10 * time.Second, time.Minute, time.Hour})
	m.depth = 1 + u.IntN(3)
	m.bad = pick(u.random, []float64{0.1, 0.3, 0.6})
	m.hang = pick(u.random, []float64{0, 0.05, 0.2})
	m.forget = pick(u.random, []float64{0, 0.05, 0.2})
	m.stubborn = pick(u.random, []float64{0, 0.1, 0.4})
	m.bodied = pick(u.random, []float64{0.1, 0.5, 0.9})
	m.think = pick(u.random, []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 5 * time.Second})
	m.slow = pick(u.random, []float64{0, 0.1, 0.4})
	m.linger = pick(u.random, []time.Duration{time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, time.Minute})
	m.busy = pick(u.random, []float64{0, 0.3, 0.8})
	m.meddle = pick(u.random, []float64{0, 0.3, 0.8})
	m.slots = map[string]int{"a": u.slots(), "b": u.slots(), "c": u.slots(), body.TypeLocal: u.slots()}
	m.partitions = pick(u.random, []int{1, 1, 2, 2, 3, 4})
	m.processes = 1 + u.IntN(3)
	m.lostHints = pick(u.random, []float64{0, 0.1, 0.5})
	m.doubled = pick(u.random, []float64{0, 0.2, 0.6})
	if u.opt.Partitions > 0 {
		m.partitions = u.opt.Partitions
	}
	if u.opt.Calm {
		m.crashAtBoundary, m.uncertain, m.refused = 0, 0, 0
	}
}

func (u *universe) slots() int { return pick(u.random, []int{-1, -1, 1, 2, 3, 8}) }

// leaseTerm is how long an owner that gives no sign of life keeps its partition.
const leaseTerm = 10 * time.Second

// clock is what a node reads.
func (u *universe) clock() core.Time { return u.now.Add(u.skew) }

// wrapStore makes the handle that nodes use.
func (u *universe) wrapStore() {
	u.store = u.disk
	if u.opt.Wrap != nil {
		u.store = u.opt.Wrap(u.disk)
	}
}

func (u *universe) after(d time.Duration, what string, do func()) {
	u.agenda.add(u.now.Add(d), what, do)
}

// say writes a line of the trace.
func (u *universe) say(format string, args ...any) {
	if u.trace != nil {
		fmt.Fprintf(u.trace, "%5d %s  %s\n", u.steps, offset(u.now), fmt.Sprintf(format, args...))
	}
}

// violate keeps the first violation.
func (u *universe) violate(inv Invariant, run core.RunID, format string, args ...any) {
	if u.broken == nil {
		u.broken = &Violation{Invariant: inv, Run: run, Msg: fmt.Sprintf(format, args...)}
		u.say("VIOLATION %s: %s", inv, u.broken.Msg)
	}
}

// live runs the universe to its end.
func (u *universe) live() {
	for u.broken == nil {
		if !u.calm && u.now >= u.end {
			u.becalm()
		}
		if u.calm && u.over() {
			u.book.finale()
			return
		}
		if u.steps++; u.steps > u.opt.Steps {
			u.violate(Liveness, u.book.anyOpen(), "after %d steps %d runs are still open", u.steps, u.book.open())
			return
		}
		u.step()
		for _, s := range u.seats {
			if s.node.changed || u.opt.Tamper != nil {
				s.node.changed = false
				s.node.check()
			}
		}
	}
}

// step lets the next thing happen: what stands on the agenda, or the engine waking by itself.
func (u *universe) step() {
	at, planned := u.agenda.first()
	var n *node
	var wake core.Time
	wakes := false
	u.owners(func(other *node) {
		if at, ok := other.wake(); ok && (!wakes || at < wake) {
			n, wake, wakes = other, at, true
		}
	})
	switch {
	case !planned && !wakes:
		u.now = max(u.now, u.end) // nothing will happen any more before the end
	case wakes && (!planned || wake < at):
		u.now = max(u.now, wake)
		n.tick()
	default:
		item := u.agenda.pop()
		u.now = max(u.now, item.at)
		u.say("%s", item.what)
		item.do()
	}
}

// over reports whether all runs have ended and all is said.
func (u *universe) over() bool {
	for _, s := range u.seats {
		n := s.node
		if !n.quiet() || s.zombie != nil || len(n.workers.jobs) > 0 || len(n.workers.owes) > 0 ||
			n.host.real.Sessions() > 0 || len(n.inbox) > 0 {
			return false
		}
	}
	return u.clients.silent() && u.book.open() == 0 && len(u.executing) == 0 && u.book.onTheWay == 0
}

// becalm ends the faults; from here on every run that can end has to.
func (u *universe) becalm() {
	u.calm, u.full = true, 0
	u.mood.latency = min(u.mood.latency, time.Millisecond)
	u.say("calm")
	for _, s := range u.seats {
		if s.zombie != nil {
			s.zombie.vanish()
		}
		if u.bug.planted && !s.node.dead {
			s.node.crash("to be replaced by a version without the bug")
		}
	}
	for _, s := range u.seats {
		if s.node.dead {
			s.boot(u)
		}
		s.node.workers.behave()
	}
	u.clients.nudge()
}

// fault is the journal's fault seam: what the disk does to a call.
func (u *universe) fault(op memory.Op, b *journal.Batch) error {
	switch op {
	case memory.OpAppend:
		if u.now < u.full || (!u.calm && u.chance(u.mood.refused)) {
			return fmt.Errorf("%w: simulated", journal.ErrFull)
		}
	case memory.OpAck:
		u.book.stored(b)
		if !u.calm && u.chance(u.mood.uncertain) {
			return errDisk
		}
	case memory.OpTail, memory.OpHistory, memory.OpAcquire, memory.OpRenew:
		if u.opening && !u.calm && u.chance(u.mood.uncertain/4) {
			return errDisk
		}
	default: // the rest reads, and a failed read is asked again
	}
	return nil
}

// errDisk is an error that does not tell whether the batch was stored.
var errDisk = errors.New("simulated input/output error")

func (u *universe) config(n *node) engine.Config {
	compile := func(d journal.Definition) (*core.Definition, error) {
		w, err := workflowNamed(d.Name)
		if err != nil {
			return nil, err
		}
		return u.bug.plant(w.compiled), nil
	}
	resolve := func(_ core.DefinitionID, name string) (journal.Definition, error) {
		w, err := workflowNamed(name)
		if err != nil {
			return journal.Definition{}, err
		}
		return w.source, nil
	}
	return engine.Config{
		Journal: u.store, Partition: n.seat.partition, Sent: u.hint, Workers: n.workers, Owner: n.name, Horizon: u.mood.horizon, Random: u.Uint64,
		Kinds: map[string]engine.Kind{
			journal.KindFlow: {Compile: compile, Resolve: resolve},
			journal.KindGo:   {Compile: compile, Resolve: resolve, Bodies: n.host.bodies},
		},
	}
}

// offset writes an instant as the time since the universe began.
func offset(t core.Time) string {
	if t == 0 {
		return "-"
	}
	return t.Sub(epoch).String()
}
