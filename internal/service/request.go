package service

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/policy"
)

func invalid(err error, format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(format, args...), Err: err}
}

func noSuchStep(run core.RunID, step string) error {
	return &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("run %s has no step %q", run.String()[:sharedPrefix], step),
	}
}

// Definition converts a definition to the form that the journal stores.
func Definition(d api.Definition) (journal.Definition, error) {
	id, err := definitionID(d.ID)
	return journal.Definition{ID: id, Kind: d.Kind, Name: d.Name, Source: []byte(d.Source)}, err
}

// startRequest converts a request of the API to one of the engine.
func (s *Embedded) startRequest(r api.StartRequest) (engine.StartRequest, error) {
	d, err := Definition(r.Definition)
	if err != nil {
		return engine.StartRequest{}, err
	}
	k, err := s.workflows.given(d)
	if err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	begun, err := begin(k.workflow, d, r.Input)
	if err != nil {
		return engine.StartRequest{}, err
	}
	if err := schedule.Reserved(d.Name, r.WorkflowID, r.Labels, r.ScheduledAt != 0); err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	req, err := Start(d, begun, &r)
	if err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	return req, nil
}

// Start returns the engine's request for a run of a definition, from its workflow's settings and the caller's: the
// caller's deadline replaces the workflow's.
func Start(d journal.Definition, begun core.Start, r *api.StartRequest) (engine.StartRequest, error) {
	req := engine.StartRequest{Definition: d, Start: begun}
	if r.UseExisting {
		req.OnConflict = engine.ConflictUse
	}
	if _, err := time.LoadLocation(r.Zone); err != nil {
		return req, fmt.Errorf("zone: %w", err)
	}
	var err error
	if req.Input, err = api.Payload("start", d.Name, begun.Input); err != nil {
		return req, err
	}
	req.WorkflowID, req.Key, req.At = r.WorkflowID, r.Key, core.Time(r.StartAt)
	req.Firing, req.Zone = core.Time(r.ScheduledAt), r.Zone
	req.Actor, req.Reason, req.Notify = r.Actor, r.Reason, r.Notify
	if q := r.Queue; q != nil {
		req.Queue = core.RunQueue{Name: q.Name, Key: q.Key, Priority: q.Priority}
	}
	if r.Timeout != nil {
		req.Run = r.Timeout
	}
	if r.Deadline != 0 {
		req.ExecutionAt = core.RunLimit{At: core.Time(r.Deadline), Origin: cmp.Or(r.Origin, "start")}
	}
	if req.Labels, err = core.MakeLabels(r.Labels); err != nil {
		return req, err
	}
	req.Headers, err = core.MakeHeaders(r.Headers)
	return req, err
}

// begin returns a workflow's settings for the start of a run with an input.
func begin(w *Prepared, d journal.Definition, input []byte) (core.Start, error) {
	if w.Begin == nil {
		return core.Start{}, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"workflow %q is a Go program's: only that program starts it", d.Name)}
	}
	start, err := w.Begin(input)
	if err != nil {
		return core.Start{}, invalid(err, "%v", err)
	}
	return start, nil
}

// operation converts an operation to one of the machine. The step is not set yet.
func operation(op api.Operation) (core.Operation, error) {
	if len(op.Output) > 0 {
		if _, err := api.Payload(op.Operation, "", op.Output); err != nil {
			return core.Operation{}, err
		}
	}
	in := core.Operation{
		Step: core.NoStep, Output: op.Output, Failure: op.Failure, Policy: op.Policy, By: time.Duration(op.By),
		To: core.Time(op.To), StopClock: op.StopClock, Actor: op.Actor, Reason: op.Reason,
	}
	if err := in.Op.UnmarshalText([]byte(op.Operation)); err != nil {
		return in, invalid(err, "%v", err)
	}
	if op.Limit != "" {
		if err := in.Limit.UnmarshalText([]byte(op.Limit)); err != nil {
			return in, invalid(err, "%v", err)
		}
	}
	if op.Remove {
		in.To = policy.FarFuture
	}
	return in, nil
}
