package sim

import (
	"bytes"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// bodyModel holds what is recorded of a run's decisions against what its program decides on what is recorded.
type bodyModel struct {
	u       *universe
	program *program
	steps   int                 // recorded so far
	ended   map[core.StepID]int // how many were when the step ended
	// rewritten: an operator has restarted a step after more was decided. What that rested on is no more, and the program may well
	// decide something else now.
	rewritten bool
}

// closes checks, before an entry is folded in which a body closes its run, that the program comes to that end. The notes that were
// made in the same entry are known to it.
func (m *bodyModel) closes(a *account, e core.Entry) {
	i := slices.IndexFunc(e.Records, func(rec core.Record) bool {
		_, closing := rec.(core.RunClosing)
		return closing
	})
	if i < 0 || m.rewritten {
		return
	}
	end, _ := e.Records[i].(core.RunClosing)
	if end.Phase != core.RunSucceeded && end.Phase != core.RunFailed && end.Phase != core.RunContinued {
		return // a limit or an operator does
	}
	kn := newKnowledge(engine.NewsOf(a.shadow, nil).Steps)
	for _, rec := range e.Records {
		if rec, mark := rec.(core.StepOmitted); mark {
			kn.add(&known{spec: rec.Spec, phase: rec.Phase, output: rec.Output, closed: true})
		}
	}
	w := m.program.walkThrough(kn, a.shadow.Input)
	for _, cmd := range w.decided {
		c, ok := cmd.(core.Close)
		if ok && c.Phase == end.Phase && bytes.Equal(c.Output, end.Output) && (c.Failure == nil || c.Failure.Message == end.Failure.Message) {
			return
		}
	}
	m.u.violate(Decided, a.id, "the run is closed as %s %s, and its body decides %d things before that or does not end so", end.Phase, end.Output, len(w.decided))
}

// fold takes an entry that the run's shadow has folded.
func (m *bodyModel) fold(a *account, e core.Entry) {
	decisive := false
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.StepBegan, core.StepOmitted:
			m.steps++
			decisive = true
		case core.StepEnded:
			m.ended[rec.Step] = m.steps
			decisive = true
		case core.StepReset:
			decisive = true
			if rec.Restart && m.followed(a, rec.Step) {
				m.rewritten = true
			}
		default:
		}
	}
	if decisive && !m.rewritten {
		m.replay(a)
	}
}

// followed reports whether the body has decided something after a step's end.
func (m *bodyModel) followed(a *account, id core.StepID) bool {
	for _, s := range a.shadow.Steps[m.ended[id]:] {
		if !s.Spec.Hook {
			return true
		}
	}
	return false
}

// replay calls the program with what is recorded: it asks for all of it, in the recorded order, and for nothing else before that.
func (m *bodyModel) replay(a *account) {
	kn := newKnowledge(engine.NewsOf(a.shadow, nil).Steps)
	var steps []*known
	for i := range a.shadow.Steps {
		if s := &a.shadow.Steps[i]; !s.Dropped && !s.Spec.Hook {
			steps = append(steps, kn.steps[s.Spec.Name])
		}
	}
	w := m.program.walkThrough(kn, a.shadow.Input)
	if w.changed != "" {
		m.u.violate(Decided, a.id, "%s", w.changed)
		return
	}
	for _, k := range steps {
		if !k.asked {
			m.u.violate(Decided, a.id, "%s is recorded, and the body does not come to it", specText(k.spec))
			return
		}
	}
}
