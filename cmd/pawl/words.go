package main

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/internal/core"
)

// wordsOf are the words of the system whose document the bundle of a run was made of; nil where it is a flow.
func wordsOf(ctx context.Context, h histories, t *trail.Trail, b bundle) *live.Words {
	r := t.Run
	switch b.Dialect {
	case "aether":
		return &live.Words{System: "Aether", Status: aether.Status(r), Step: aether.TaskPhase, Retries: aether.Retries}
	case "steep":
		told := &teller{ctx, h, map[core.DefinitionID]*compiled{}}
		status, message := steep.Status(told.of(t, b))
		return &live.Words{System: "Steep", Status: status, Message: message, Step: steep.StepStatus}
	case "stevora":
		return &live.Words{
			System: "Stevora", Status: stevora.Status(r), Message: stevora.Message(r), Event: stevora.Event,
			Step: func(s *core.Step) string { return stevora.StepStatus(s.Phase) },
		}
	default:
		return nil
	}
}

// teller reads the child runs of a Steep workflow. Many of them have one flow, which is read once.
type teller struct {
	ctx   context.Context
	h     histories
	known map[core.DefinitionID]*compiled
}

func (f *teller) of(t *trail.Trail, b bundle) steep.Told {
	return steep.Told{Run: t.Run, Chains: b.Flow.Chains, Child: func(step core.StepID) (steep.Told, bool) {
		if last := t.Last(step); last != nil && last.Child != (core.RunID{}) {
			return f.read(last.Child)
		}
		return steep.Told{}, false
	}}
}

func (f *teller) read(id core.RunID) (steep.Told, bool) {
	entries, err := f.h.Entries(f.ctx, id)
	if err != nil {
		return steep.Told{}, false
	}
	created, ok := entries[0].Records[0].(core.RunCreated)
	if !ok {
		return steep.Told{}, false
	}
	c := f.known[created.Definition]
	if c == nil {
		if c, err = definitionOf(f.ctx, f.h, entries[0]); err != nil {
			return steep.Told{}, false
		}
		f.known[created.Definition] = c
	}
	return f.of(trail.Of(id, c.def, entries), c.bundle), true
}

// worded is what a run or a step is called in the words of another system, for programs.
type worded struct {
	System  string `json:"system,omitempty"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	Retries *int   `json:"retries,omitempty"`
}

func wordedRun(w *live.Words) *worded {
	if w == nil {
		return nil
	}
	return &worded{System: w.System, Status: w.Status, Message: w.Message}
}

func wordedStep(w *live.Words, s *core.Step) *worded {
	if w == nil {
		return nil
	}
	out := &worded{Status: w.Step(s)}
	if w.Retries != nil {
		n := w.Retries(s)
		out.Retries = &n
	}
	return out
}

// wordedEvent is an event with the name that another system has for it.
type wordedEvent struct {
	core.Event
	name string
}

// MarshalJSON adds the name to the event's own fields.
func (e wordedEvent) MarshalJSON() ([]byte, error) {
	text, err := e.Event.MarshalJSON()
	if err != nil || e.name == "" {
		return text, err
	}
	name, err := json.Marshal(e.name)
	if err != nil {
		return nil, err
	}
	return append(append(text[:len(text)-1], `,"dialect":`...), append(name, '}')...), nil
}
