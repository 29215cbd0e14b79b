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
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/sim/sdk"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// epoch is the instant at which every universe begins.
const epoch core.Time = 1_800_000_000_000_000

// universe is made from one seed.
type universe struct {
	random
	seed  uint64
	opt   Options
	ctx   context.Context
	trace io.Writer

	agenda     agenda
	now        core.Time     // true time
	clockError time.Duration // clocks show this much more than the true time
	shown      core.Time     // the latest that they showed before they last jumped
	steps      int
	end        core.Time // when clients and faults end
	noFaults   bool      // the faults have ended: workers report, disks have room

	shares    bool             // nodes of one process share what it counts
	processes map[int]*process // the newest process of each number

	disk          *memory.Journal // the storage
	store         journal.Journal // the storage as nodes see it; a test may have wrapped it
	partitions    []*simPartition // the partitions by number
	opening       bool            // a node is in Open
	takingOver    bool            // a second owner is in its first Open
	nodeCount     int
	profile       profile
	slowReads     *slowReads
	diskFullUntil core.Time // the instant until which appends fail with ErrFull
	boundaries    int       // boundaries of commits passed so far

	way       *taskWay                  // the way of tasks to remote workers
	remote    bool                      // some task types are executed by workers in other processes
	executing map[stepOfRun]*workerTask // the steps that workers really execute, in all nodes
	checker   *checker
	bug       *plantedBug
	poison    *poison
	rest      *resting
	machines  *machines
	warned    *warnedRuns
	change    *codeChange
	failing   map[string]core.Time // services that fail until then
	clients   *clients
	talkers   *talkers
	sdk       *sdkWorkers
	operator  *operator
	crashes   int
	opens     int // partitions that were opened
	violation *Violation
}

// stepOfRun identifies a step. At most one attempt of it may execute at a time.
type stepOfRun struct {
	run  core.RunID
	step core.StepID
}

// profile determines how often things happen in this universe, and how long they take. A float64 is a probability.
type profile struct {
	crashAtBoundary  float64 // chance that the process dies at a boundary of a commit
	uncertainAppends float64 // chance that an append is stored but answered with an error
	refusedAppends   float64 // chance that an append is refused
	diskTime         time.Duration
	pipelineDepth    int // how many batches may be cut before the first is durable
	slots            map[string]int
	instant          string        // the type of the tasks that take no time; "": there are none
	callTime         time.Duration // how long calls and reports take to arrive
	horizon          time.Duration
	failures         float64 // chance that work does not succeed
	hangs            float64
	repeats          float64       // chance that a report is lost and sent again, or is sent twice
	slowStops        float64       // chance that work stops late or is abandoned
	bodyRuns         float64       // chance that a new run has a body
	computeTime      time.Duration // how long a body computes at most before it continues
	slowBranches     float64       // chance that a branch computes longer than the others
	lateLoop         float64       // chance that the engine's loop reads the messages of bodies late
	interference     float64       // chance that a client operates on a run while its body decides
	idleTime         time.Duration // how long a body that waits keeps its goroutines
	turns            int           // how many bodies may be at work at once; 0: any number
	partitions       int
	processes        int     // they share the partitions
	lostHints        float64 // chance that the hint about a new message is lost
	family           int     // how many child runs of one family may be open in a partition; 0: as many as by default
	repeatedMessages float64 // chance that the inbox returns messages again which were taken
}

func newUniverse(seed uint64, opt Options) *universe {
	u := &universe{
		random: newRandom(seed, 1), seed: seed, opt: opt, ctx: context.Background(), trace: opt.Trace, now: epoch,
		executing: map[stepOfRun]*workerTask{},
	}
	u.checker = newChecker(u)
	u.bug, u.change = newPlantedBug(u), newCodeChange(u)
	u.failing = failingServices(u)
	u.poison, u.warned, u.slowReads = newPoison(u), newWarnedRuns(u), newSlowReads(u)
	u.rest = newResting(u)
	u.sdk = newSDK(u)
	u.drawProfile()
	u.remote, u.way = newRemote(u), newTaskWay(u)
	u.machines = newMachines(u)
	u.shares, u.processes = u.sharing() && !u.machines.planted, map[int]*process{}
	u.operator = newOperator(u)
	u.disk = memory.NewPartitions(u.profile.partitions)
	u.disk.Fault = u.fault
	// A lease ends only when the universe ends it.
	u.disk.Term, u.disk.Now = leaseTerm, func() core.Time { return epoch }
	u.end = epoch.Add(max(u.span(10*time.Second, opt.Span), u.machines.shortest()))
	u.clients, u.talkers = newClients(u), newTalkers(u)
	u.wrapStore()
	for n := range u.profile.partitions {
		u.partitions = append(u.partitions, &simPartition{number: n, remote: map[core.Token]*workerTask{}})
	}
	u.beginNodes()
	u.clients.plan()
	u.talkers.plan()
	u.sdk.planAll()
	planGroupLimits(u)
	if !opt.NoFaults {
		u.planFaults()
	}
	return u
}

// beginNodes begins an owner of each partition, or the machines of a cluster, which take them.
func (u *universe) beginNodes() {
	if u.machines.planted {
		u.machines.begin()
		u.machines.planFaults()
		return
	}
	for _, s := range u.partitions {
		u.nodeCount++
		s.node = newNode(u, s, nil)
	}
	for _, s := range u.partitions {
		s.node.open()
	}
}

func (u *universe) drawProfile() {
	m := &u.profile
	m.crashAtBoundary = pick(u.random, []float64{0, 0, 0.003, 0.01, 0.04})
	m.uncertainAppends = pick(u.random, []float64{0, 0, 0.01, 0.05})
	m.refusedAppends = pick(u.random, []float64{0, 0, 0.02, 0.1})
	m.diskTime = pick(u.random, []time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond, 200 * time.Millisecond})
	m.callTime = pick(u.random, []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 2 * time.Second})
	m.horizon = pick(u.random, []time.Duration{0, time.Second, 10 * time.Second, time.Minute, time.Hour})
	m.pipelineDepth = 1 + u.IntN(3)
	m.failures = pick(u.random, []float64{0.1, 0.3, 0.6})
	m.hangs = pick(u.random, []float64{0, 0.05, 0.2})
	m.repeats = pick(u.random, []float64{0, 0.05, 0.2})
	m.slowStops = pick(u.random, []float64{0, 0.1, 0.4})
	m.bodyRuns = pick(u.random, []float64{0.1, 0.5, 0.9})
	m.computeTime = pick(u.random, []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 5 * time.Second})
	m.slowBranches = pick(u.random, []float64{0, 0.1, 0.4})
	m.idleTime = pick(u.random, []time.Duration{
		time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, time.Minute,
	})
	m.turns = pick(newRandom(u.seed, 14), []int{0, 0, 1, 2, 4})
	m.instant = pick(newRandom(u.seed, 15), []string{"", "b", "c"})
	m.lateLoop = pick(u.random, []float64{0, 0.3, 0.8})
	m.interference = pick(u.random, []float64{0, 0.3, 0.8})
	m.slots = map[string]int{
		"a": u.slots(), "b": u.slots(), "c": u.slots(), body.TypeLocal: u.slots(), sdk.ActivityType: -1,
	}
	m.partitions = pick(u.random, []int{1, 1, 2, 2, 3, 4})
	m.processes = 1 + u.IntN(3)
	m.lostHints = pick(u.random, []float64{0, 0.1, 0.5})
	m.repeatedMessages = pick(u.random, []float64{0, 0.2, 0.6})
	m.family = pick(u.random, []int{0, 0, 1, 2})
	if u.opt.Partitions > 0 {
		m.partitions = u.opt.Partitions
	}
	if u.opt.NoFaults {
		m.crashAtBoundary, m.uncertainAppends, m.refusedAppends = 0, 0, 0
	}
}

func (u *universe) slots() int { return pick(u.random, []int{-1, -1, 1, 2, 3, 8}) }

// leaseTerm is how long an owner keeps its partition without renewing its lease.
const leaseTerm = 10 * time.Second

// clock returns the time that nodes see.
func (u *universe) clock() core.Time { return u.now.Add(u.clockError) }

// latest returns the latest time that nodes have seen.
func (u *universe) latest() core.Time { return max(u.clock(), u.shown) }

// wrapStore makes the journal that nodes use.
func (u *universe) wrapStore() {
	u.store = u.disk
	if u.opt.WrapJournal != nil {
		u.store = u.opt.WrapJournal(u.disk)
	}
}

func (u *universe) after(d time.Duration, what string, do func()) {
	u.agenda.add(u.now.Add(d), what, do)
}

// tracef writes one line of the trace.
func (u *universe) tracef(format string, args ...any) {
	if u.trace != nil {
		fmt.Fprintf(u.trace, "%5d %s  %s\n", u.steps, offset(u.now), fmt.Sprintf(format, args...))
	}
}

// violate keeps the first violation. Later ones may only follow from it.
func (u *universe) violate(inv Invariant, run core.RunID, format string, args ...any) {
	if u.violation == nil {
		u.violation = &Violation{Invariant: inv, Run: run, Msg: fmt.Sprintf(format, args...)}
		u.tracef("VIOLATION %s: %s", inv, u.violation.Msg)
	}
}

// run runs the universe until its end or the first violation.
func (u *universe) run() {
	for u.violation == nil {
		if !u.noFaults && u.now >= u.end {
			u.endFaults()
		}
		if u.noFaults && u.finished() {
			u.checker.finalCheck()
			return
		}
		if u.steps++; u.steps > u.opt.Steps {
			u.violate(Liveness, u.checker.anyOpen(), "after %d steps %d runs are still open", u.steps, u.checker.open())
			return
		}
		u.step()
		for _, s := range u.partitions {
			if s.node.changed || u.opt.ChangeMemory != nil {
				s.node.changed = false
				s.node.check()
			}
		}
	}
}

// step makes the next thing happen: the next item of the agenda, or a node that wakes on its own.
func (u *universe) step() {
	at, planned := u.agenda.first()
	var n *node
	var wake core.Time
	wakes := false
	u.eachNode(func(other *node) {
		if at, ok := other.wake(); ok && (!wakes || at < wake) {
			n, wake, wakes = other, at, true
		}
	})
	switch {
	case !planned && !wakes:
		u.now = max(u.now, u.end) // nothing else will happen before the end
	case wakes && (!planned || wake < at):
		u.now = max(u.now, wake)
		n.tick()
	default:
		item := u.agenda.pop()
		u.now = max(u.now, item.at)
		u.tracef("%s", item.what)
		item.do()
	}
}

// finished reports whether all runs have ended and nothing is on its way.
func (u *universe) finished() bool {
	u.forgetRemote()
	for _, s := range u.partitions {
		n := s.node
		if !n.idle() || s.formerOwner != nil || len(n.workers.tasks) > 0 || len(n.workers.stopReports) > 0 ||
			len(s.remote) > 0 ||
			n.host.real.Sessions() > 0 || len(n.inbox) > 0 {
			return false
		}
	}
	return u.clients.allAnswered() && u.checker.open() == 0 && len(u.executing) == 0 && u.checker.undelivered == 0
}

// endFaults ends the faults. From now on every run that can end must end.
func (u *universe) endFaults() {
	u.noFaults, u.diskFullUntil = true, 0
	u.profile.diskTime = min(u.profile.diskTime, time.Millisecond)
	u.tracef("the faults end")
	for _, s := range u.partitions {
		if s.formerOwner != nil {
			s.formerOwner.endFenced()
		}
		if (u.bug.planted || u.change.planted) && !s.node.dead {
			s.node.crash("to be replaced by a version without the bug")
		}
	}
	for _, s := range u.partitions {
		if s.node.process.lost && !s.node.dead {
			s.node.crash("after its process has lost a partition")
		}
		u.rest.finish(s.node)
	}
	if u.machines.planted {
		u.machines.endFaults()
	}
	for _, s := range u.partitions {
		if s.node.dead && !u.machines.planted {
			s.startNode(u)
		}
		s.node.workers.endHanging()
		s.endHangingRemote()
	}
	u.clients.unblock()
}

// fault decides what the disk does to a call of the journal.
func (u *universe) fault(op memory.Op, b *journal.Batch) error {
	switch op {
	case memory.OpAppend:
		if u.now < u.diskFullUntil || (!u.noFaults && u.chance(u.profile.refusedAppends)) {
			return fmt.Errorf("%w: simulated", journal.ErrFull)
		}
	case memory.OpAck:
		u.checker.addBatch(b)
		if !u.noFaults && u.chance(u.profile.uncertainAppends) {
			return errDisk
		}
	case memory.OpTail, memory.OpHistory, memory.OpAcquire, memory.OpRenew, memory.OpInbox:
		if op == memory.OpAcquire && u.takingOver {
			return nil // the former owner would stay the owner, and its workers were ended
		}
		if u.opening && !u.noFaults && u.chance(u.profile.uncertainAppends/4) {
			return errDisk
		}
	default: // the others only read; after an error the node reads again
	}
	return u.slowReads.fault(op)
}

// errDisk does not report whether the batch was stored.
var errDisk = errors.New("simulated input/output error")

func (u *universe) config(n *node) engine.Config {
	compile := func(d journal.Definition) (*core.Definition, error) {
		w, err := workflowNamed(d.Name)
		if err != nil {
			return nil, err
		}
		def, err := u.rewritten(w)
		if err != nil {
			return nil, err
		}
		return u.bug.addTo(def), nil
	}
	child := kind.Children(func(_ core.DefinitionID, name string) (journal.Definition, error) {
		w, err := workflowNamed(name)
		if err != nil {
			return journal.Definition{}, err
		}
		return w.source, nil
	})
	cfg := engine.Config{
		Journal: n.store, Partition: n.home.number, Sent: u.hint, Owner: n.owner(), Shared: n.machine != nil,
		MaxFamily: u.profile.family, Carried: n.process.carried,
		Horizon: u.profile.horizon, Random: u.Uint64, Services: u.opt.Services, Queues: u.limitsOfRuns(),
		Observer: engine.Observer{Recorded: u.checker.checkObserved},
		Kinds: map[string]engine.Kind{
			journal.KindFlow: {Compile: compile, Child: child},
			journal.KindGo:   {Compile: compile, Child: child, Bodies: n.host.bodies},
		},
	}
	cfg.Kinds[history.Kind] = engine.Kind{Compile: sdkKind.Compile, Child: sdkKind.Child, Bodies: n.sdk}
	if n.process.withoutPrograms && !u.opt.CarryAll {
		cfg.Kinds[journal.KindGo] = engine.Kind{Compile: withoutProgram}
	}
	if n.process.shared && !u.opt.OwnMatchers {
		cfg.Matcher, cfg.Wake = n.process.matcher, n.match
		return cfg
	}
	cfg.Matcher = slots.NewMatcher()
	cfg.Matcher.Add("", n.workers)
	u.addRemote(cfg.Matcher, func(core.RunID) *workers { return n.workers }, n.workers.count)
	return cfg
}

// offset writes an instant as the time since the universe began.
func offset(t core.Time) string {
	if t == 0 {
		return "-"
	}
	return t.Sub(epoch).String()
}
