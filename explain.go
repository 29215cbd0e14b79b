package pawl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// Explanation is a run with all that explains it, as pawl run show prints it with -o json.
type Explanation = api.Run

// Explain returns a run with all that explains it: every attempt of every step, why each step and the run ended as they
// did, which deadline binds now and where it was set, what happens next and when, and who operated on it.
func (e *Engine) Explain(ctx context.Context, id string) (*Explanation, error) {
	run, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := e.explained.Run(ctx, run.String())
	if errors.Is(err, ErrNotFound) {
		return nil, &api.Error{Code: api.CodeNotFound, Op: "explain", ID: id, Message: "there is no such run", Err: err}
	}
	if err != nil {
		return nil, err
	}
	r.Steps = slices.DeleteFunc(r.Steps, func(s *api.Step) bool { return s.Type == body.TypeMark })
	return r, nil
}

// explains returns what explains the runs of an engine.
func (e *Engine) explains() *service.Embedded {
	read := func(d journal.Definition) (*service.Workflow, error) {
		def, err := e.node.Compile(d)
		return &service.Workflow{Definition: def}, err
	}
	return service.NewEmbedded(e.engine, read, func() core.Time { return policy.At(time.Now()) })
}
