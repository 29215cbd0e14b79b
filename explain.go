package pawl

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// Explain returns a run with everything that explains it: every attempt of every step, why each step and the run ended
// as they did, which deadline ends them first and where it was set, what happens next and when, and who operated on it.
func (e *Engine) Explain(ctx context.Context, id string) (*client.Explanation, error) {
	r, err := onRun(ctx, e, id, func(run core.RunID) (*api.Run, error) { return e.explained.Run(ctx, run.String()) })
	if err != nil {
		return nil, missing(err, "explain", id)
	}
	return explained(ctx, r, e.host.codec), nil
}

// explained makes the explanation of a run. Steps with which bodies only note something are left out.
func explained(ctx context.Context, r *api.Run, codec Codec) *client.Explanation {
	r.Steps = slices.DeleteFunc(r.Steps, func(s *api.Step) bool { return body.Notes(s.Type) })
	out := client.Explain(r)
	openExplanation(ctx, out, codec)
	return out
}

// openExplanation reads what the codec made of failures. Inputs and outputs stay as they are recorded.
func openExplanation(ctx context.Context, e *client.Explanation, c Codec) {
	at := placeOf(kindFailure, e.ID, e.Workflow, "")
	e.Failure = opened(ctx, c, at, e.Failure)
	for i := range e.Steps {
		s := &e.Steps[i]
		at.name = s.Name
		s.Failure = opened(ctx, c, at, s.Failure)
		for j := range s.Attempts {
			s.Attempts[j].Failure = opened(ctx, c, at, s.Attempts[j].Failure)
		}
	}
}

// explains returns what explains the runs of an engine.
func (e *Engine) explains() *service.Embedded {
	read := func(d journal.Definition) (*service.Workflow, error) {
		def, err := e.node.Compile(d)
		return &service.Workflow{Definition: def}, err
	}
	s := service.NewEmbedded(e.engine, read, func() core.Time { return policy.At(time.Now()) })
	s.KnowProblems(e.host.bodies.Problems)
	return s
}
