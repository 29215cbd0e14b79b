package body

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// Pending is an update on its way to a body; see Asked.
type Pending interface {
	Offer()
	Again() <-chan struct{}
	Refused() *policy.Failure
	Leave()
}

// Asking asks bodies for replies to updates.
type Asking struct {
	// State returns what a run knows of an update.
	State func(ctx context.Context, run core.RunID, name, id string) (engine.UpdateState, error)
	Ask   func(run core.RunID, u Update) Pending
	// HasBody reports whether a workflow with that definition is a function.
	HasBody func(workflow string, definition core.DefinitionID) bool
}

// Reply is what happened to an update.
type Reply struct {
	Run      core.RunID
	Output   []byte
	Failure  *policy.Failure
	Refused  bool // the body did not accept it
	Open     bool // there is none yet, and the caller no longer waits
	Accepted bool // the body works on it; for Open
}

// Update sends the update to the run, or to one that follows it in its chain, and waits until it has replied or ctx is
// done.
func (a Asking) Update(ctx context.Context, run core.RunID, u Update) (Reply, error) {
	for {
		reply, next, err := a.ask(ctx, run, u)
		if next == run || err != nil {
			return reply, err
		}
		run = next
	}
}

// ask asks one run, or returns the next one of its chain.
func (a Asking) ask(ctx context.Context, run core.RunID, u Update) (Reply, core.RunID, error) {
	reply := Reply{Run: run}
	asked := a.Ask(run, u)
	defer asked.Leave()
	for {
		state, err := a.State(ctx, run, u.Name, u.ID)
		if err != nil {
			return reply, run, err
		}
		known := state.Update
		if known != nil && known.Answered {
			reply.Output, reply.Failure = known.Output, known.Failure
			return reply, run, nil
		}
		if state.Phase.Closed() && state.Next != (core.RunID{}) {
			return reply, state.Next, nil
		}
		if known == nil {
			if err := a.refusal(run, &state, u.Name); err != nil {
				return reply, run, err
			}
			asked.Offer()
		}
		select {
		case _, open := <-asked.Again():
			if !open {
				return reply, run, engine.ErrClosed
			}
			if reply.Failure = asked.Refused(); reply.Failure != nil {
				reply.Refused = true
				return reply, run, nil
			}
		case <-ctx.Done():
			reply.Open, reply.Accepted = true, known != nil
			return reply, run, nil
		}
	}
}

// refusal returns why a run takes no update, nil if it may.
func (a Asking) refusal(run core.RunID, s *engine.UpdateState, name string) error {
	refusal := &api.Error{Op: "update " + name, ID: run.String()}
	switch {
	case s.Phase.Closed():
		refusal.Code, refusal.Message = api.CodeRunClosed, "the run is "+s.Phase.String()
	case !a.HasBody(s.Workflow, s.Definition):
		refusal.Code, refusal.Message = api.CodeInvalid, "the run is of a flow, and only a body in Go takes updates"
	case s.Paused:
		refusal.Code, refusal.Message = api.CodeConflict, "the run is paused"
		refusal.Hint = "resume it first"
	default:
		return nil
	}
	return refusal
}
