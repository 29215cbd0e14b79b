package sim

import "github.com/pawl-dev/pawl/internal/core"

// bug is one in the code of workflows: in some universes a decider panics now and then, until the faults end and a version
// without the bug takes over. Then every run that was set aside has to go on, and all that is always checked has to hold.
type bug struct {
	random
	u       *universe
	planted bool
	hit     map[core.RunID]bool // runs whose decider has panicked
	panics  int
}

// newBug draws from numbers of its own, so that universes without a bug stay as they are.
func newBug(u *universe) *bug {
	b := &bug{random: newRandom(u.seed, 0xb06), u: u, hit: map[core.RunID]bool{}}
	b.planted = !u.opt.Calm && b.chance(0.3)
	return b
}

// plant lays the bug over a definition.
func (b *bug) plant(def *core.Definition) *core.Definition {
	if !b.planted || def.HasBody {
		return def
	}
	mine := *def
	mine.NewDecider = func(r *core.Run) core.Decider { return &panicking{def.NewDecider(r), b} }
	return &mine
}

// panicking is a decider that panics now and then. A run that has a parent is spared: what its parent asks of it meanwhile
// (to stop, to have another deadline) does not reach a run that is set aside.
type panicking struct {
	core.Decider
	bug *bug
}

func (p *panicking) Decide(r *core.Run, closed []core.StepID, now core.Time) []core.Command {
	b := p.bug
	if !b.u.calm && len(r.Steps) > 0 && r.Parent.Run == (core.RunID{}) && b.chance(0.3) {
		b.hit[r.ID] = true
		b.panics++
		b.u.say("the decider of run %s panics", short(r.ID))
		panic("a planted bug")
	}
	return p.Decider.Decide(r, closed, now)
}
