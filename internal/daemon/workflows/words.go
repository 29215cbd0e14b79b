package workflows

import (
	"cmp"
	"strings"

	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/dialect/temporal/temporalform"
	"github.com/pawl-dev/pawl/dialect/zart/zartform"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/trail"
)

// wordsOf returns the words of the system from whose document a flow was made, which the flow may name, or in whose
// words it is written; nil if there is none.
func wordsOf(w *Compiled) service.Words {
	switch cmp.Or(w.Bundle.Dialect, w.Doc.Words, w.Doc.Form) {
	case "aether":
		return aetherWords{}
	case "steep":
		return steepWords{w.Bundle.Flow.Chains}
	case "stevora":
		return stevoraWords{}
	case "temporal":
		return temporalWords{}
	case "zart":
		return zartWords{}
	default:
		return nil
	}
}

// childReader reads the run that the last attempt of a step of another run started.
type childReader = func(parent *trail.Trail, step core.StepID) (*trail.Trail, *service.Prepared)

type aetherWords struct{}

func (aetherWords) Run(t *trail.Trail, _ childReader) api.Words {
	return api.Words{System: "Aether", Status: aether.Status(t.Run)}
}

func (aetherWords) Step(s *core.Step) api.Words {
	retries := aether.Retries(s)
	return api.Words{Status: aether.TaskPhase(s), Retries: &retries}
}

func (aetherWords) Event(core.Event) string { return "" }

type stevoraWords struct{}

func (stevoraWords) Run(t *trail.Trail, _ childReader) api.Words {
	return api.Words{System: "Stevora", Status: stevora.Status(t.Run.Phase.String()), Message: stevora.Message(t.Run)}
}

func (stevoraWords) Step(s *core.Step) api.Words {
	return api.Words{Status: stevora.StepStatus(s.Phase.String())}
}

func (stevoraWords) Event(e core.Event) string {
	return stevora.Event(e.Type, e.Name, e.Attempt, e.Failure != nil)
}

// steepWords knows the process chains of a flow that was made from a Steep workflow.
type steepWords struct{ chains map[string]string }

func (w steepWords) Run(t *trail.Trail, child childReader) api.Words {
	status, message := steep.Status(w.counted(t, child))
	return api.Words{System: "Steep", Status: status, Message: message}
}

// counted returns a run as Steep counts it, with its child runs.
func (w steepWords) counted(t *trail.Trail, child childReader) steep.Told {
	return steep.Told{Run: t.Run, Chains: w.chains, Child: func(step core.StepID) (steep.Told, bool) {
		run, workflow := child(t, step)
		if run == nil {
			return steep.Told{}, false
		}
		below, _ := workflow.Words.(steepWords)
		return below.counted(run, child), true
	}}
}

func (steepWords) Step(s *core.Step) api.Words { return api.Words{Status: steep.StepStatus(s)} }

func (steepWords) Event(core.Event) string { return "" }

type temporalWords struct{}

func (temporalWords) Run(t *trail.Trail, _ childReader) api.Words {
	return api.Words{System: "Temporal", Status: temporalform.Status(t.Run)}
}

// Step adds to an activity's status the timeout that ended it, and the state of its retries.
func (temporalWords) Step(s *core.Step) api.Words {
	message := strings.TrimSpace(temporalform.TimeoutType(s) + " " + temporalform.RetryState(s))
	return api.Words{Status: temporalform.StepStatus(s), Message: message}
}

func (temporalWords) Event(core.Event) string { return "" }

type zartWords struct{}

func (zartWords) Run(t *trail.Trail, _ childReader) api.Words {
	return api.Words{System: "Zart", Status: zartform.Status(t.Run)}
}

func (zartWords) Step(s *core.Step) api.Words { return api.Words{Status: zartform.StepStatus(s)} }

func (zartWords) Event(core.Event) string { return "" }
