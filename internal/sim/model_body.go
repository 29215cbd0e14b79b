package sim

import (
	"bytes"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// bodyModel compares the recorded decisions of a run with those that its program makes.
type bodyModel struct {
	u       *universe
	program *program
	steps   int                  // how many steps are recorded
	stopped map[core.StepID]bool // steps that ended badly because their run ended
	from    []core.StepID        // the steps from which the failure of a run that has ended followed
	remains []*known             // open steps in cancelled scopes
	stop    *stopModel           // nil: the body was not asked to stop
	talk    talkModel
}

// checkClose checks an entry in which a body closes its run: the program must come to that end. It is called before the
// entry is applied, but it knows what the body decides in the same entry before that.
func (m *bodyModel) checkClose(a *account, e core.Entry) {
	i := slices.IndexFunc(e.Records, func(rec core.Record) bool {
		_, closing := rec.(core.RunClosing)
		return closing
	})
	if i < 0 {
		return
	}
	end, _ := e.Records[i].(core.RunClosing)
	decided := end.Phase == core.RunSucceeded || end.Phase == core.RunFailed || end.Phase == core.RunContinued
	switch {
	case m.stop != nil && end.Phase != m.stop.phase:
		m.u.violate(Decided, a.id, "the run is closed as %s, and its body was asked to stop because the run is %s",
			end.Phase, m.stop.phase)
	case m.stop != nil && e.At >= m.stop.until, m.stop == nil && !decided:
		return // a limit or an operator closes the run
	}
	kn := newKnowledge(engine.NewsOf(a.state, nil).Steps)
	id := len(a.state.Steps)
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.StepOmitted:
			kn.add(&known{id: id, spec: rec.Spec, phase: rec.Phase, output: rec.Output, closed: true})
			id++
		case core.StepBegan:
			if !rec.Spec.Hook {
				kn.add(&known{id: id, spec: rec.Spec})
			}
			id++
		default:
		}
	}
	output := m.outputOf(a, e.Records[:i], end)
	w := m.program.walkThrough(kn, a, m.stop)
	for _, cmd := range w.decided {
		c, ok := cmd.(core.Close)
		if ok && m.stop != nil {
			return // the run ends in the phase of the stop
		}
		if !ok || c.Phase != end.Phase || !bytes.Equal(c.Output, output) {
			continue
		}
		if c.Failure == nil || c.Failure.Message == end.Failure.Message {
			m.checkFrom(a, c.From, end.From)
			return
		}
	}
	m.u.violate(Decided, a.id,
		"the run is closed as %s %s, and its body makes %d decisions first or ends in another way",
		end.Phase, output, len(w.decided))
}

// outputOf returns the output of a run that is closed in an entry, which may be recorded with a step. The run's own
// record must have none that is large and is a step's.
func (m *bodyModel) outputOf(a *account, before []core.Record, end core.RunClosing) []byte {
	outputs := map[core.StepID][]byte{}
	for i := range a.state.Steps {
		outputs[core.StepID(i)] = a.state.Steps[i].Output
	}
	next := core.StepID(len(a.state.Steps))
	for _, rec := range before {
		switch rec := rec.(type) {
		case core.StepBegan:
			next++
		case core.StepOmitted:
			outputs[next] = rec.Output
			next++
		case core.StepEnded:
			outputs[rec.Step] = rec.Output
		default:
		}
	}
	if end.SameAs != 0 {
		return outputs[end.SameAs-1]
	}
	for id, output := range outputs {
		if len(output) >= largeOutput && bytes.Equal(output, end.Output) {
			m.u.violate(Decided, a.id, "the output of step %d is recorded again as the run's", id)
		}
	}
	return end.Output
}

// applyEntry takes an entry that was applied to the run's state.
func (m *bodyModel) applyEntry(a *account, e core.Entry) {
	decisive := false
	for _, rec := range e.Records {
		decisive = m.applyTalk(a, rec) || decisive
		switch rec := rec.(type) {
		case core.StepBegan, core.StepOmitted:
			m.steps++
			decisive = true
		case core.StepEnded, core.StepReset:
			decisive = true
		case core.RunStopping:
			switch {
			case rec.Until == 0:
			case m.stop != nil:
				m.stop = &stopModel{phase: m.stop.phase, from: m.stop.from, until: rec.Until}
			default:
				m.stop, decisive = &stopModel{phase: rec.Phase, from: m.steps, until: rec.Until}, true
			}
		case core.RunReopened:
			decisive = true
			if rec.Until == 0 || m.stop == nil {
				m.stop = nil
			} else {
				m.stop = &stopModel{phase: m.stop.phase, from: m.stop.from, until: rec.Until}
			}
		default:
		}
	}
	if decisive {
		m.checkTalk(a, e, m.replay(a))
	}
}

// replay walks through the program with the recorded results. The program must ask for all recorded steps, in their
// order, before it asks for a new one.
func (m *bodyModel) replay(a *account) *walk {
	kn := newKnowledge(engine.NewsOf(a.state, nil).Steps)
	var steps []*known
	for i := range a.state.Steps {
		if s := &a.state.Steps[i]; !s.Dropped && !s.Spec.Hook {
			steps = append(steps, kn.steps[s.Spec.Name])
		}
	}
	w := m.program.walkThrough(kn, a, m.stop)
	m.remains = w.remains
	if w.changed != "" {
		m.u.violate(Decided, a.id, "%s", w.changed)
		return w
	}
	for _, k := range steps {
		// The version that a run goes by stays, also if a retry dropped what the body decided beside it. Undone steps
		// are kept when a compensation goes on, until the body reaches it.
		if !k.asked && !k.kept && !strings.HasPrefix(k.spec.Name, "version/") {
			m.u.violate(Decided, a.id, "%s is recorded, and the body does not ask for it", specText(k.spec))
			return w
		}
	}
	return w
}
