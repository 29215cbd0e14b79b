package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// eventModel is an event that a run keeps.
type eventModel struct{ name, id, payload string }

// takenModel is an event that a wait took.
type takenModel struct {
	step core.StepID
	eventModel
}

// keepEvent takes an event. A sender or the run before in the chain may have sent it.
func (m *runModel) keepEvent(rec core.SignalKept) {
	m.notByTimer = true
	e := eventModel{rec.Name, rec.ID, string(rec.Payload)}
	if rec.Back {
		i := slices.Index(m.returned, e)
		if i < 0 {
			m.fail(Events, "the run gets %v back, want %v", e, m.returned)
			return
		}
		m.returned = slices.Delete(m.returned, i, i+1)
		return
	}
	known := m.ch.events[m.chain]
	switch key := e.name + " " + e.id; {
	case m.a.sdk.copied(m.a): // its chain begins with what the other run knew
		if known[key] = e.id != ""; rec.Taken {
			return
		}
	case rec.Taken && rec.Carried && known[key]:
		return
	case rec.Carried && len(m.inherited) > 0 && m.inherited[0] == e:
		m.inherited = m.inherited[1:]
	case rec.Carried:
		m.fail(Events, "the run keeps %v first, but the run before left %v", e, m.inherited)
	case e.id != "" && known[key]:
		m.fail(Events, "%v is kept twice in its chain", e)
	case e.id != "":
		known[key] = true
	}
	m.events = append(m.events, e)
	if own := m.a.sdk; own != nil {
		own.heard = append(own.heard, own.fold.Entries)
	}
}

// joinChain notes the run's place in its chain. The run must keep the events that the run before left.
func (m *runModel) joinChain(chain core.Chain) {
	m.chain = m.a.id
	if chain.Previous == (core.RunID{}) || m.a.sdk.copied(m.a) {
		m.ch.events[m.chain] = map[string]bool{}
		return
	}
	m.chain = chain.First
	if before := m.ch.accounts[chain.Previous]; before != nil && before.model.next == m.a.id {
		m.inherited = before.model.events
		if m.a.sdk != nil { // the chain may go on beside that of its first run
			m.chain = before.model.chain
		}
		return
	}
	m.fail(Recorded, "the run follows run %s, which does not name it as the next one", short(chain.Previous))
}

// returnEvents puts the events that dropped waits took before the kept ones, in the order in which they were taken.
func (m *runModel) returnEvents() {
	m.returned = nil
	var still []takenModel
	for _, t := range m.taken {
		if m.steps[t.step].dropped {
			m.returned = append(m.returned, t.eventModel)
		} else {
			still = append(still, t)
		}
	}
	m.taken, m.events = still, slices.Concat(m.returned, m.events)
	m.ch.returned += len(m.returned)
}

// checkInherited checks that the run has kept all events of the run before, and got all back that a retry gives back.
func (m *runModel) checkInherited() {
	if len(m.returned) > 0 {
		m.fail(Events, "the waits that took %v are dropped, and the run does not get them back", m.returned)
	}
	if len(m.inherited) > 0 {
		m.fail(Events, "the run before left %v, and no run keeps them", m.inherited)
	}
}

// takeEvent gives a wait the first event of its name, or of its names.
func (m *runModel) takeEvent(s *stepModel, rec core.StepEnded) {
	i := slices.IndexFunc(m.events, func(e eventModel) bool { return slices.Contains(awaited(s.spec), e.name) })
	if i < 0 || m.events[i].name != rec.Signal {
		m.fail(Events, "step %s takes an event %q that was not kept, or was taken before",
			m.name(int(rec.Step)), rec.Signal)
		return
	}
	want := m.events[i].payload
	if s.spec.Any != nil {
		want = fmt.Sprintf(`{"which":%q,"value":%s}`, rec.Signal, want)
	}
	if want != string(rec.Output) {
		m.fail(Events, "step %s takes the event %q with %s, but the first one of that name has %s",
			m.name(int(rec.Step)), rec.Signal, rec.Output, want)
	}
	m.taken = append(m.taken, takenModel{rec.Step, m.events[i]})
	m.events = slices.Delete(m.events, i, i+1)
}

// checkFirst checks that a wait which no event has ended was ended by a step that has ended.
func checkFirst(m *runModel, i int, rec core.StepEnded) {
	var out struct{ Which string }
	err := json.Unmarshal(rec.Output, &out)
	ended := func(s stepModel) bool { return s.spec.Name == out.Which && s.closed && !s.dropped }
	if err != nil || !slices.ContainsFunc(m.steps, ended) {
		m.fail(Events, "step %s ends with %s, and no such step has ended", m.name(i), rec.Output)
	}
}
