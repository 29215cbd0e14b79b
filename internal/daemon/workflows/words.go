package workflows

import (
	"cmp"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/systems"
	"github.com/pawl-dev/pawl/internal/trail"
)

// wordsOf returns the words of the system from whose document a flow was made, which the flow may name, or in whose
// words it is written; nil if there is none.
func wordsOf(w *Compiled) service.Words {
	system := systems.Of(cmp.Or(w.Bundle.Dialect, w.Doc.Words, w.Doc.Form))
	if system == nil {
		return nil
	}
	return words{system, w.Bundle.Flow.Chains}
}

// childReader reads the run that the last attempt of a step of another run started.
type childReader = func(parent *trail.Trail, step core.StepID) (*trail.Trail, *service.Prepared)

// words are those of a system for the runs of a flow.
type words struct {
	system *systems.System
	chains map[string]string // the process chains of a flow that was made from a Steep workflow
}

func (w words) Run(t *trail.Trail, child childReader) api.Words {
	out := w.shown(w.system.Run(w.counted(t, child)))
	out.System = w.system.Title
	return out
}

func (words) shown(w systems.Words) api.Words {
	return api.Words{Status: w.Status, Message: w.Message, Retries: w.Retries}
}

// counted returns a run with its child runs, which some systems count as one.
func (w words) counted(t *trail.Trail, child childReader) systems.RunTree {
	return systems.RunTree{Run: t.Run, Chains: w.chains, Child: func(step core.StepID) (systems.RunTree, bool) {
		run, workflow := child(t, step)
		if run == nil {
			return systems.RunTree{}, false
		}
		below, _ := workflow.Words.(words)
		return below.counted(run, child), true
	}}
}

func (w words) Step(s *core.Step) api.Words { return w.shown(w.system.Step(s)) }

func (w words) Event(e core.Event) string {
	if w.system.Event == nil {
		return ""
	}
	return w.system.Event(e)
}
