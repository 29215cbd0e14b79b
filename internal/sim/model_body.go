package sim

import (
	"bytes"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// bodyModel holds what is recorded of a run's decisions against what its program decides on what is recorded.
type bodyModel struct {
	u       *universe
	program *program
	stopped map[core.StepID]bool // steps that ended badly because their run ended
	from    []core.StepID        // the steps that the failure of a run that has ended came from
}

// closes checks, before an entry is folded in which a body closes its run, that the program comes to that end. The notes that were
// made in the same entry are known to it.
func (m *bodyModel) closes(a *account, e core.Entry) {
	i := slices.IndexFunc(e.Records, func(rec core.Record) bool {
		_, closing := rec.(core.RunClosing)
		return closing
	})
	if i < 0 {
		return
	}
	end, _ := e.Records[i].(core.RunClosing)
	if end.Phase != core.RunSucceeded && end.Phase != core.RunFailed && end.Phase != core.RunContinued {
		return // a limit or an operator does
	}
	kn := newKnowledge(engine.NewsOf(a.shadow, nil).Steps)
	for _, rec := range e.Records {
		if rec, mark := rec.(core.StepOmitted); mark {
			kn.steps[rec.Spec.Name] = &known{spec: rec.Spec, phase: rec.Phase, output: rec.Output, closed: true}
		}
	}
	w := m.program.walkThrough(kn, a.shadow.Input)
	for _, cmd := range w.decided {
		c, ok := cmd.(core.Close)
		if ok && c.Phase == end.Phase && bytes.Equal(c.Output, end.Output) && (c.Failure == nil || c.Failure.Message == end.Failure.Message) {
			m.came(a, c.From, end.From)
			return
		}
	}
	m.u.violate(Decided, a.id, "the run is closed as %s %s, and its body decides %d things before that or does not end so", end.Phase, end.Output, len(w.decided))
}

// fold takes an entry that the run's shadow has folded.
func (m *bodyModel) fold(a *account, e core.Entry) {
	for _, rec := range e.Records {
		switch rec.(type) {
		case core.StepBegan, core.StepOmitted, core.StepEnded, core.StepReset, core.RunReopened:
			m.replay(a)
			return
		default:
		}
	}
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
		// The version that a run goes by stays, also where a retry has dropped the decision beside it.
		if !k.asked && !strings.HasPrefix(k.spec.Name, "version/") {
			m.u.violate(Decided, a.id, "%s is recorded, and the body does not come to it", specText(k.spec))
			return
		}
	}
}
