package service

import (
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

// startRequest makes the engine's request from that of the API.
func (s *Embedded) startRequest(r api.StartRequest) (engine.StartRequest, error) {
	d, err := Definition(r.Definition)
	if err != nil {
		return engine.StartRequest{}, err
	}
	k, err := s.workflows.keep(d)
	if err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	req, err := begin(k.workflow, d, r.Input)
	if err != nil {
		return engine.StartRequest{}, err
	}
	req.WorkflowID, req.Key, req.At = r.WorkflowID, r.Key, core.Time(r.StartAt)
	req.Firing, req.Zone = core.Time(r.ScheduledAt), r.Zone
	if _, err := time.LoadLocation(r.Zone); err != nil {
		return engine.StartRequest{}, invalid(err, "zone: %v", err)
	}
	req.Actor, req.Reason, req.Notify = r.Actor, r.Reason, r.Notify
	if q := r.Queue; q != nil {
		req.Queue = core.RunQueue{Name: q.Name, Key: q.Key, Priority: q.Priority}
	}
	if err := schedule.Reserved(d.Name, r.WorkflowID, r.Labels, r.ScheduledAt != 0); err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	if req.Labels, err = core.MakeLabels(r.Labels); err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	if req.Headers, err = core.MakeHeaders(r.Headers); err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	if r.UseExisting {
		req.OnConflict = engine.ConflictUse
	}
	if r.Timeout != nil {
		req.Run = r.Timeout
	}
	if r.Deadline != 0 {
		origin := r.Origin
		if origin == "" {
			origin = "start"
		}
		req.ExecutionAt = core.RunLimit{At: core.Time(r.Deadline), Origin: origin}
	}
	return req, nil
}

// begin makes the start of a run as its workflow defines it.
func begin(w *Workflow, d journal.Definition, input []byte) (engine.StartRequest, error) {
	if w.Begin == nil {
		return engine.StartRequest{}, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"workflow %q is a Go program's: only that program starts it", d.Name)}
	}
	start, err := w.Begin(input)
	if err != nil {
		return engine.StartRequest{}, invalid(err, "%v", err)
	}
	return engine.StartRequest{Definition: d, Start: start}, nil
}

// operation converts an operation to one of the machine. The step is not set yet.
func operation(op api.Operation) (core.Operation, error) {
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
