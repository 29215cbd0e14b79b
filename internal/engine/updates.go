package engine

import (
	"bytes"
	"context"

	"github.com/pawl-dev/pawl/internal/core"
)

// UpdateState is what a run knows of an update, and what it is at itself.
type UpdateState struct {
	Update     *core.Update // nil: the run does not know it
	Workflow   string
	Definition core.DefinitionID
	Phase      core.RunPhase
	Next       core.RunID // the next run of its chain; zero: none
	Paused     bool
}

// UpdateState returns what a run knows of an update, as far as that is durable. It asks the run in memory, so it costs
// the same however much has happened to the run. Errors: CodeNotFound, and those of Inspect.
func (e *Engine) UpdateState(ctx context.Context, run core.RunID, name, id string) (UpdateState, error) {
	c := &UpdateCall{Run: run, Name: name, ID: id}
	if err := e.of(run).ask(ctx, c); err != nil {
		return UpdateState{}, err
	}
	if c.Answer != nil {
		return *c.Answer, nil
	}
	r, err := e.Inspect(ctx, run)
	if err != nil {
		return UpdateState{}, err
	}
	return updateStateOf(r, name, id), nil
}

func updateStateOf(r *core.Run, name, id string) UpdateState {
	s := UpdateState{
		Workflow: r.Workflow, Definition: r.Definition, Phase: r.Phase, Next: r.Next, Paused: r.PausedAt != 0,
	}
	if known := r.FindUpdate(name, id); known != nil {
		u := *known
		u.Output = bytes.Clone(u.Output) // the caller may change it
		s.Update = &u
	}
	return s
}

// UpdateCall asks what a run knows of an update. The answer is nil if the run is not in memory: the view has all of it,
// or a read says why not.
type UpdateCall struct {
	repeating[*UpdateState]
	Run      core.RunID
	Name, ID string
}

func (*UpdateCall) op() string { return "read" }

func (c *UpdateCall) do(p *Partition) {
	if r := p.residents.runs[c.Run]; r != nil && r.aside == nil {
		state := updateStateOf(r.state, c.Name, c.ID)
		c.Answer = &state
	}
	p.pipeline.reply(c)
}
