package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// resting gives some processes of some universes only some of the runs to carry on, as a command has that was asked for
// these. Other processes do not have the programs: for these the runs of bodies are elsewhere. The other runs rest
// there. Only what clients and other runs do to them may be recorded. When the faults end, processes take over that
// carry on everything.
type resting struct {
	random
	u       *universe
	planted bool
}

// newResting uses its own random numbers, so that universes in which nothing rests stay as they are. A step that kills
// its process would be hard to tell from others in a run that nobody recovers for a while.
func newResting(u *universe) *resting {
	r := &resting{random: newRandom(u.seed, 0x4e57), u: u}
	r.planted = !u.opt.NoFaults && !u.poison.planted && (r.chance(0.3) || u.opt.Rest)
	return r
}

// inNewProcess decides what rests in a process that begins.
func (r *resting) inNewProcess(p *process) {
	if !r.planted || r.u.noFaults {
		return
	}
	p.withoutPrograms = r.chance(0.3)
	if !r.chance(0.5) {
		return
	}
	p.tops, p.carried = map[core.RunID]bool{}, engine.NewCarried()
	for _, a := range r.u.checker.order {
		if top := r.u.checker.topOf(a); top == a.id && r.chance(0.4) {
			p.tops[top] = true
			p.carried.Add(top)
		}
	}
	if r.u.opt.CarryAll {
		p.carried = nil
	}
	r.u.after(r.span(time.Second, 10*time.Minute), "a process carries a run on that rested", func() { r.carry(p) })
}

// carry makes a process carry on one more family, and another one later.
func (r *resting) carry(p *process) {
	if p.ended() || r.u.noFaults {
		return
	}
	if order := r.u.checker.order; len(order) > 0 {
		top := r.u.checker.topOf(pick(r.random, order))
		p.carried.Add(top)
		p.tops[top] = true
		for _, s := range r.u.partitions {
			if n := p.nodes[s.number]; n != nil {
				n.noteCarried(top)
			}
		}
	}
	r.u.after(r.span(time.Second, 10*time.Minute), "a process carries a run on that rested", func() { r.carry(p) })
}

// noteCarried notes that the node's process carries on one more family.
func (n *node) noteCarried(top core.RunID) {
	if n.dead || n.needsOpen || !n.lookedAt {
		return // it finds out when it opens its partition
	}
	if n.carriedFrom == nil {
		n.carriedFrom = map[core.RunID]int{}
	}
	if _, already := n.carriedFrom[top]; !already {
		n.carriedFrom[top] = n.computed()
	}
	n.woken++
	n.after(0, n.name+" looks for what it carries on", func() {
		n.woken--
		if !n.needsOpen {
			n.p.Rematch(n.u.clock())
			n.turn()
		}
	})
}

// topOf returns the first run of the chain at the top of a run's family.
func (ch *checker) topOf(a *account) core.RunID {
	for {
		above := a.state.Parent.Run
		if above == (core.RunID{}) {
			above = a.state.Chain.Previous
		}
		next := ch.accounts[above]
		if next == nil {
			return a.id
		}
		a = next
	}
}

// rests reports whether a run rests in the node's process.
func (n *node) rests(a *account) bool {
	p := n.process
	return p.withoutPrograms && a.body != nil || p.tops != nil && !p.tops[n.u.checker.topOf(a)]
}

// restedThen reports whether a run rested when the node made the decision that is being stored now.
func (n *node) restedThen(a *account) bool {
	return n.rests(a) || n.carriedFrom[n.u.checker.topOf(a)] > n.storedEntries
}

// cannotStart reports whether a call starts a program that the node's process does not have.
func (n *node) cannotStart(c engine.Call) bool {
	start, ok := c.(*engine.StartCall)
	return n.process.withoutPrograms && ok && start.Start.Definition.Kind == journal.KindGo
}

// withoutProgram returns the definition of a program that the process does not have.
func withoutProgram(journal.Definition) (*core.Definition, error) {
	return &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return nil }, HasBody: true, HandlesCancel: true, Elsewhere: true,
	}, nil
}

// noteStart adds a run that a client has started to those that its process carries on.
func (ch *checker) noteStart(rec core.RunCreated, run core.RunID) {
	p := ch.appending.process
	if p.tops != nil && rec.Parent.Run == (core.RunID{}) && rec.Chain.Previous == (core.RunID{}) {
		p.tops[run] = true
	}
}

// checkResting checks an entry of a run that rests: it records an action of a caller or another run. due is set if only
// a timer caused it.
func (ch *checker) checkResting(n *node, a *account, e core.Entry, due core.Time) {
	if !n.rests(a) {
		return
	}
	if due != 0 && !ch.childEnded(a, e) && !ch.cameTooLate(a, e) {
		ch.u.violate(Rested, a.id, "a timer that was due at %s fires in a process where the run rests", offset(due))
	}
	elsewhere := n.process.withoutPrograms && a.body != nil
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.RunStarted:
			ch.u.violate(Rested, a.id, "the run begins in a process where it rests")
		case core.AttemptStarted:
			if elsewhere || rec.Child == (core.RunID{}) {
				ch.u.violate(Rested, a.id, "an attempt of step %s starts in a process where the run rests",
					a.model.name(int(rec.Step)))
			}
		case core.AttemptEnded:
			if f := rec.Failure; f != nil && f.Type == "lost" && a.model.steps[rec.Step].kind == core.KindTask {
				ch.u.violate(Rested, a.id, "an attempt of step %s is lost in a process where the run rests",
					a.model.name(int(rec.Step)))
			}
		case core.StepBegan, core.AttemptReady:
			if elsewhere {
				ch.u.violate(Rested, a.id, "%s in a process without the run's program", recordText(rec))
			}
		case core.RunStopping:
			if elsewhere && rec.Until != 0 {
				ch.u.violate(Rested, a.id, "the run's body is asked to stop in a process that does not have it")
			}
		default: // a caller or another run did it
		}
	}
}

// childEnded reports whether an entry takes in the end of a child run. A child run may end by the limit of its parent,
// and then its parent does, too.
func (ch *checker) childEnded(a *account, e core.Entry) bool {
	for _, rec := range e.Records {
		if ended, ok := rec.(core.AttemptEnded); ok {
			s := &a.model.steps[ended.Step]
			if s.kind == core.KindChild && ch.openEnd(s.last) == nil {
				return true
			}
		}
	}
	return false
}

// cameTooLate reports whether an entry records that a task was given back after a limit of its attempt. The worker's
// report then makes the due limits fire.
func (ch *checker) cameTooLate(a *account, e core.Entry) bool {
	for _, rec := range e.Records {
		ended, ok := rec.(core.AttemptEnded)
		if ok && ended.Failure != nil && ended.Failure.Kind == policy.KindTimeout {
			tok := core.Token{Run: a.id, Step: ended.Step, Attempt: a.model.steps[ended.Step].attempt}
			if ch.u.way.reported[tok] {
				return true
			}
		}
	}
	return false
}

// finish makes a process carry on everything, or ends it, when the faults end.
func (r *resting) finish(n *node) {
	p := n.process
	switch {
	case n.dead || p.tops == nil && !p.withoutPrograms:
	case p.withoutPrograms || p.carried == nil || len(r.u.partitions) > 1 || r.chance(0.5):
		// If there are several partitions, one of them may get a child run of a family that is begun later.
		n.crash("to be replaced by a program that carries on everything")
	default:
		for _, a := range r.u.checker.order {
			top := r.u.checker.topOf(a)
			p.tops[top] = true
			p.carried.Add(top)
		}
		n.noteCarried(core.RunID{})
	}
}
