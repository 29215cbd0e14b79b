package sim

import (
	"errors"
	"maps"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/policy"
)

// process is a program with an engine, and the checker's knowledge of it. In some universes the nodes of one process
// share its slots and its counts of queues and services, as the partitions of one engine do. In the others each node
// has its own; nodes with the same number usually die together then.
type process struct {
	number  int
	shared  bool
	matcher *slots.Matcher // the matcher of a shared process
	nodes   map[int]*node  // the nodes by partition; a process takes each partition once
	lost    bool           // it has lost a partition to another process, and ends soon

	withoutPrograms bool                // it has no bodies: their runs are elsewhere
	tops            map[core.RunID]bool // the first runs of the families that it carries on; nil: all
	carried         *engine.Carried     // the same, as its engine has it

	services  map[string]*serviceModel // the checker's knowledge of services, as the process counts them
	refused   core.Time                // the latest start that a refused append would have recorded; or 0
	foundOpen map[string]bool          // services whose breakers the process found open
	runQueues map[string]*serviceModel // the checker's knowledge of the rates of queues of runs
}

// sharing decides whether processes share what they count. It uses its own random numbers, so that the other universes
// stay as they are.
func (u *universe) sharing() bool {
	own := newRandom(u.seed, 0x54a2)
	shares := u.profile.partitions > 1 && (own.chance(0.5) || u.opt.Share)
	if shares && own.chance(0.7) {
		u.profile.processes = 1
	}
	return shares
}

// processOf returns the process of a node that begins.
func (u *universe) processOf(n *node, number int) *process {
	p := u.processes[number]
	if !u.shares || p == nil || p.lost || p.ended() || p.nodes[n.home.number] != nil {
		p = &process{
			number: number, shared: u.shares, nodes: map[int]*node{}, services: map[string]*serviceModel{},
			foundOpen: map[string]bool{}, runQueues: map[string]*serviceModel{},
		}
		if u.shares {
			p.matcher = slots.NewMatcher()
			p.matcher.Add("", processWorkers{u, p})
			u.addRemote(p.matcher, processWorkers{u, p}.of, p.busy)
		}
		u.rest.inNewProcess(p)
		u.processes[number] = p
	}
	p.nodes[n.home.number] = n
	return p
}

// ended reports whether no node of the process is left.
func (p *process) ended() bool {
	for _, n := range p.nodes {
		if !n.dead {
			return false
		}
	}
	return true
}

// processWorkers are the workers of a shared process: those of the node that has the run.
type processWorkers struct {
	u *universe
	p *process
}

func (w processWorkers) of(run core.RunID) *workers {
	return w.p.nodes[w.u.partitionOf(run).number].workers
}

func (w processWorkers) Slots(_, taskType string) int {
	if w.u.remote && taskType == remoteType {
		return 0
	}
	return w.u.profile.slots[taskType]
}

func (w processWorkers) Do(t core.Task) (core.TaskEnded, bool) { return w.of(t.Token.Run).Do(t) }

func (w processWorkers) Dispatch(t core.Task) { w.of(t.Token.Run).Dispatch(t) }

func (w processWorkers) Revoke(tok core.Token, why policy.Kind) { w.of(tok.Run).Revoke(tok, why) }

// diesWith reports whether a node dies when another one does.
func (n *node) diesWith(other *node) bool {
	if n.process.shared {
		return n.process == other.process
	}
	return n.process.number == other.process.number && n.u.chance(0.8)
}

// match takes the matcher's call to a node of a shared process: a slot may be free for it, or it has a turn.
func (n *node) match(queue, taskType string) {
	n.woken++
	n.after(0, n.name+" looks for slots", func() {
		n.woken--
		if n.needsOpen {
			n.heldReports = append(n.heldReports, func() { n.match(queue, taskType) })
			return
		}
		n.p.Match(queue, taskType, n.u.clock())
		n.turn()
	})
}

// losePartition ends the program soon after a node of a shared process has lost its partition: the engine in front of
// the others has ended with it, so the program ends soon.
func (n *node) losePartition() {
	p := n.process
	if !p.shared {
		return
	}
	n.p.Shut(errLost)
	p.lost = true
	for _, m := range p.services {
		maps.DeleteFunc(m.running, func(tok core.Token, _ bool) bool { return n.u.partitionOf(tok.Run) == n.home })
	}
	n.u.after(n.u.span(time.Millisecond, time.Minute), "a process that has lost a partition ends", func() {
		for _, s := range n.u.partitions {
			if other := s.node; other.process == p && !other.dead {
				other.crash("after its process has lost a partition")
			}
		}
	})
}

var errLost = errors.New("another process owns the partition")

// joined notes what the other nodes of a process have decided before a node took over its partition: they could not
// know what runs there.
func (p *process) joined(n *node) {
	for _, other := range p.nodes {
		if other != n && other.lookedAt && !other.dead && !other.needsOpen {
			other.before[n.home.number] = other.computed()
		}
	}
}

// counts reports whether the process counts the runs of a partition about which one of its nodes decides. If decided is
// set, only if it already did when the node made the decision that is being stored.
func (n *node) counts(s *simPartition, decided bool) bool {
	if s == n.home {
		return true
	}
	return n.process.shared && s.owner != nil && s.owner.process == n.process &&
		(!decided || n.before[s.number] <= n.storedEntries)
}

// undecided reports whether other nodes of the process have made decisions that are not stored yet: then the journal
// does not show the order.
func (n *node) undecided() bool {
	for _, other := range n.process.nodes {
		if other != n && other.lookedAt && !other.dead && !other.needsOpen && other.computed() > other.storedEntries {
			return true
		}
	}
	return false
}

// quiet reports whether the other nodes of the process have nothing under way that may affect this one.
func (n *node) quiet() bool {
	if n.process.lost || n.woken > 0 {
		return false
	}
	for _, other := range n.process.nodes {
		if other == n || other.dead {
			continue
		}
		if !other.idle() || other.more || other.woken > 0 || other.late.waits() {
			return false
		}
		if other == other.home.formerOwner {
			return false // it has lost its partition, and counts its known runs until it notices
		}
	}
	return true
}

// busy counts the slots that tasks of a type have. A node that has lost its partition, and does not know, has its slots
// as before.
func (p *process) busy(taskType string) (sum int) {
	for _, n := range p.nodes {
		if !n.dead {
			sum += n.workers.busy[taskType]
		}
	}
	return sum
}

// eachTask calls fn with all tasks that the process's workers have.
func (p *process) eachTask(fn func(tok core.Token, wt *workerTask)) {
	for _, n := range p.nodes {
		for tok, wt := range n.workers.tasks {
			fn(tok, wt)
		}
	}
}
