package sim

import "github.com/pawl-dev/pawl/internal/core"

// plantedBug makes deciders panic now and then in some universes. When the faults end, a version without the bug takes
// over. Then every run that was set aside must go on. All other checks apply all the time.
type plantedBug struct {
	random
	u        *universe
	planted  bool
	panicked map[core.RunID]bool // runs whose decider has panicked, or that of the next run of their chain at its start
	panics   int
}

// newPlantedBug uses random numbers of its own, so that universes without the bug do not change.
func newPlantedBug(u *universe) *plantedBug {
	b := &plantedBug{random: newRandom(u.seed, 0xb06), u: u, panicked: map[core.RunID]bool{}}
	b.planted = !u.opt.NoFaults && b.chance(0.3)
	return b
}

// addTo adds the bug to a definition.
func (b *plantedBug) addTo(def *core.Definition) *core.Definition {
	if !b.planted || def.HasBody {
		return def
	}
	mine := *def
	mine.NewDecider = func(r *core.Run) core.Decider { return &panicking{def.NewDecider(r), b} }
	return &mine
}

// panicking is a decider that panics now and then.
type panicking struct {
	core.Decider
	bug *plantedBug
}

func (p *panicking) Decide(r *core.Run, closed []core.StepID, now core.Time) []core.Command {
	b := p.bug
	if !b.u.noFaults && len(r.Steps) > 0 && b.chance(0.3) {
		b.panicked[r.ID] = true
		if r.Seq == 0 && r.Chain.Previous != (core.RunID{}) {
			// The end of a run and the start of the next one are saved together, or neither is. So it is the earlier
			// run that is set aside.
			b.panicked[r.Chain.Previous] = true
		}
		b.panics++
		b.u.tracef("the decider of run %s panics", short(r.ID))
		panic("a planted bug")
	}
	return p.Decider.Decide(r, closed, now)
}
