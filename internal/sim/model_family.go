package sim

import "github.com/pawl-dev/pawl/internal/core"

// createInFamily checks the record of a new run against the runs above it, and that no more child runs of its family
// are open than its partition allows.
func (m *runModel) createInFamily(rec core.RunCreated) {
	parent := m.ch.accounts[rec.Parent.Run]
	if parent == nil {
		return
	}
	above := parent.created().Parent.Depth
	if top := m.ch.top(parent); rec.Parent.Top != top || rec.Parent.Depth != above+1 {
		m.fail(Recorded, "the run is %d below %s, and its parent is %d below %s",
			rec.Parent.Depth, rec.Parent.Top, above, top)
	}
	most := m.ch.u.profile.family
	if most == 0 || rec.Chain.Previous != (core.RunID{}) || m.ch.u.opens > len(m.ch.u.partitions) {
		return // a partition that was opened again has counted from then on
	}
	open := 0
	home := m.ch.u.partitionOf(m.a.id)
	for _, a := range m.ch.accounts {
		if a != m.a && !a.model.closed && m.ch.u.partitionOf(a.id) == home && a.created().Parent.Top == rec.Parent.Top {
			open++
		}
	}
	if open >= most {
		m.fail(Recorded, "%d child runs of the family of %s were open, and another one began", open, rec.Parent.Top)
	}
}

// created returns the record that created the run.
func (a *account) created() core.RunCreated {
	rec, _ := a.entries[0].Records[0].(core.RunCreated)
	return rec
}

// top returns the first run of the chain at the top of a run's family.
func (ch *checker) top(a *account) core.RunID {
	for {
		rec := a.created()
		parent := ch.accounts[rec.Parent.Run]
		switch {
		case parent != nil:
			a = parent
		case rec.Chain.First != (core.RunID{}):
			return rec.Chain.First
		default:
			return a.id
		}
	}
}
