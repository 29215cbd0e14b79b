package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// eventModel is an event that a run keeps.
type eventModel struct{ name, id, payload string }

// keep takes an event, of a sender or of the run before in the chain.
func (m *runModel) keep(rec core.SignalKept) {
	m.outside = true
	e := eventModel{rec.Name, rec.ID, string(rec.Payload)}
	known := m.b.events[m.chain]
	switch key := e.name + " " + e.id; {
	case rec.Taken && rec.Carried && known[key]:
		return
	case rec.Carried && len(m.left) > 0 && m.left[0] == e:
		m.left = m.left[1:]
	case rec.Carried:
		m.bad(Events, "the run begins with %v, the run before has left %v", e, m.left)
	case e.id != "" && known[key]:
		m.bad(Events, "%v is kept a second time in its chain", e)
	case e.id != "":
		known[key] = true
	}
	m.events = append(m.events, e)
}

// join takes the run's place in its chain: it is to begin with the events that the run before has left.
func (m *runModel) join(chain core.Chain) {
	m.chain = m.a.id
	if chain.Previous == (core.RunID{}) {
		m.b.events[m.chain] = map[string]bool{}
		return
	}
	m.chain = chain.First
	if before := m.b.accounts[chain.Previous]; before != nil && before.model.next == m.a.id {
		m.left = before.model.events
		return
	}
	m.bad(Recorded, "the run follows run %s, which does not say so", short(chain.Previous))
}

// joined checks that nothing was left behind.
func (m *runModel) joined() {
	if len(m.left) > 0 {
		m.bad(Events, "the run before has left %v, which nobody has now", m.left)
	}
}

// taken lets a wait have the first event of its name.
func (m *runModel) taken(rec core.StepEnded) {
	i := slices.IndexFunc(m.events, func(e eventModel) bool { return e.name == rec.Signal })
	if i < 0 {
		m.bad(Events, "step %s takes an event %q that was not kept, or was taken before", m.name(int(rec.Step)), rec.Signal)
		return
	}
	if e := m.events[i]; e.payload != string(rec.Output) {
		m.bad(Events, "step %s takes event %q with %s, the first one kept has %s", m.name(int(rec.Step)), rec.Signal, rec.Output, e.payload)
	}
	m.events = slices.Delete(m.events, i, i+1)
}
