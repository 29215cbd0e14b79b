package pawl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/service"
)

// serves is an engine as a server needs it. What its program alone knows, its workflows, goes through the engine.
type serves struct {
	*service.Embedded
	engine *Engine
}

func toServe(e any) served.Engine { return serves{e.(*Engine).explained, e.(*Engine)} }

// Workflows returns the names of the workflows that the program has.
func (s serves) Workflows() (names []string) {
	h := s.engine.host
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.workflows {
		if !strings.HasPrefix(name, "pawl.") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Find returns the definition of a workflow.
func (s serves) Find(_ context.Context, name string) (api.Definition, error) {
	d := s.engine.host.definition(name)
	if d == nil {
		return api.Definition{}, &api.Error{
			Code: api.CodeNotFound, Message: fmt.Sprintf("workflow %q is not registered in the server's program", name),
			Hint: "pass it to Config.Workflows or Engine.Register there",
		}
	}
	of := d.source()
	return api.Definition{ID: of.ID.String(), Kind: of.Kind, Name: of.Name, Source: string(of.Source)}, nil
}

// Start makes a run of a workflow that the program has.
func (s serves) Start(ctx context.Context, r api.StartRequest) (api.Started, error) {
	name := r.Definition.Name
	has, err := s.Find(ctx, name)
	if err != nil {
		return api.Started{}, err
	}
	if has.ID != r.Definition.ID {
		return api.Started{}, &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the server's program has another workflow %q", name),
			Hint: "both programs need the same flow document; or start it by its name",
		}
	}
	req := client.StartRequest{
		Workflow: name, ID: r.WorkflowID, Key: r.Key, Input: r.Input, UseExisting: r.UseExisting, At: r.StartAt.Std(),
		Deadline: r.Deadline.Std(), Actor: r.Actor, Reason: r.Reason, Labels: r.Labels, Headers: r.Headers,
	}
	if q := r.Queue; q != nil {
		req.Queue, req.QueueKey, req.Priority = q.Name, q.Key, q.Priority
	}
	started, err := s.engine.startRun(ctx, req, func(req *engine.StartRequest) error {
		if r.Timeout != nil {
			req.Run = r.Timeout
		}
		req.Notify = r.Notify
		if r.Deadline != 0 && r.Origin != "" {
			req.ExecutionAt.Origin = r.Origin
		}
		return nil
	})
	return api.Started{Run: started.ID, Existing: started.Existing}, err
}

// Restart makes a run like an earlier one.
func (s serves) Restart(ctx context.Context, name string, r api.RestartRequest) (api.Started, error) {
	run, err := s.Run(ctx, name)
	if err != nil {
		return api.Started{}, err
	}
	if r.Reason == "" {
		r.Reason = "as run " + run.Run
	}
	id, err := s.engine.RestartRun(ctx, run.Run, RerunSteps(r.Steps...), RerunFrom(r.From), By(r.Actor, r.Reason))
	return api.Started{Run: id}, err
}

// Update sends an update to a run's body.
func (s serves) Update(ctx context.Context, name string, u api.Update) (api.Answer, error) {
	a, err := s.engine.SendUpdate(ctx, name, client.SendRequest{Name: u.Name, ID: u.ID, Payload: u.Payload})
	return api.Answer{Run: a.Run, Output: a.Output, Failure: a.Failure, Refused: a.Refused}, err
}
