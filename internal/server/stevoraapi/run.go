package stevoraapi

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// The statuses that are more than other words for a phase.
const (
	pending = "PENDING"
	running = "RUNNING"
	failed  = "FAILED"
)

// run is a workflow run in Stevora's form.
type run struct {
	ID          string          `json:"id"`
	Definition  string          `json:"definitionId"`
	Status      string          `json:"status"`
	Step        string          `json:"currentStepName,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	State       json.RawMessage `json:"state,omitempty"` // only once the run has ended
	Output      json.RawMessage `json:"output,omitempty"`
	Error       *failure        `json:"error,omitempty"`
	Key         string          `json:"idempotencyKey,omitempty"`
	CreatedAt   api.Time        `json:"createdAt"`
	StartedAt   api.Time        `json:"startedAt,omitzero"`
	CompletedAt api.Time        `json:"completedAt,omitzero"`
	FailedAt    api.Time        `json:"failedAt,omitzero"`
	CancelledAt api.Time        `json:"cancelledAt,omitzero"`
	NextRunAt   api.Time        `json:"nextRunAt,omitzero"`
	Steps       []stepRun       `json:"steps,omitempty"`
}

// stepRun is a step of a run.
type stepRun struct {
	Name        string          `json:"stepName"`
	Status      string          `json:"status"`
	Attempts    int             `json:"attemptCount"`
	NextRetryAt api.Time        `json:"nextRetryAt,omitzero"`
	StartedAt   api.Time        `json:"startedAt,omitzero"`
	CompletedAt api.Time        `json:"completedAt,omitzero"`
	Output      json.RawMessage `json:"output,omitempty"`
	Error       *failure        `json:"error,omitempty"`
}

type failure struct {
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// summaryOf converts a run of a list.
func summaryOf(r *api.RunSummary) run {
	out := run{
		ID: r.Run, Definition: r.Workflow, Status: stevora.Status(string(r.Phase)), Key: r.Key,
		CreatedAt: r.CreatedAt, NextRunAt: r.Wake,
	}
	switch out.Status {
	case "COMPLETED":
		out.CompletedAt = r.EndedAt
	case failed:
		out.FailedAt = r.EndedAt
		out.Error = &failure{Message: r.Message}
	case "CANCELLED":
		out.CancelledAt = r.EndedAt
	default:
	}
	return out
}

func runOf(r *api.Run) run {
	out := summaryOf(&r.RunSummary)
	out.Input, out.StartedAt, out.Output = r.Input, r.StartedAt, r.Output
	out.State = r.Output
	for _, s := range r.Steps {
		if s.Superseded || s.Group != "" {
			continue
		}
		out.Steps = append(out.Steps, stepOf(s))
		if !s.Phase.Closed() && s.Phase != api.StepPending {
			out.Step = s.Name
		}
	}
	if out.Status == running && isPending(r) {
		out.Status = pending
	}
	if out.Status == failed {
		out.Error = errorOf(r)
	}
	return out
}

// isPending reports whether no attempt has begun since the run was started, or since it was retried: a step that was
// reset has attempts, none of which counts.
func isPending(r *api.Run) bool {
	waits, begun, reset := false, false, false
	for _, s := range r.Steps {
		switch {
		case s.Phase == api.StepScheduled && s.Counted <= 1 && s.Lost == 0:
			waits, reset = true, reset || s.Attempt > 1
		case !s.Phase.Closed():
			return false
		default:
			begun = true
		}
	}
	return waits && (reset || !begun)
}

// errorOf returns the reason why a run failed.
func errorOf(r *api.Run) *failure {
	out := failureOf(r.Failure)
	if out == nil {
		out = &failure{}
	}
	out.Message = r.Message
	for _, s := range r.Steps {
		if !s.Superseded && (s.Phase == api.StepFailed || s.Phase == api.StepTimedOut) {
			out.Message = stevora.MessageOf(s.Name, s.Failure, s.Counted)
			break
		}
	}
	return out
}

// messageOf returns why a run failed, by the event of the step that made it fail.
func messageOf(r *api.Run, broke *api.Event) string {
	attempts := broke.Attempt
	for _, s := range r.Steps {
		if s.Step == broke.Step && s.EndedAt == broke.Time {
			attempts = s.Counted // lost attempts are not among them
		}
	}
	return stevora.MessageOf(broke.Step, broke.Failure, attempts)
}

func stepOf(s *api.Step) stepRun {
	out := stepRun{
		Name: s.Name, Status: stevora.StepStatus(string(s.Phase)), Attempts: s.Counted, StartedAt: s.StartedAt,
		CompletedAt: s.EndedAt, Output: s.Output, Error: failureOf(s.Failure),
	}
	switch s.Phase {
	case api.StepScheduled: // its attempt is counted, and has not begun
		out.Attempts, out.Error, out.CompletedAt = max(s.Counted-1, 0), nil, 0
	case api.StepBackingOff:
		out.NextRetryAt = s.NextAt
	default:
	}
	return out
}

func failureOf(f *policy.Failure) *failure {
	if f == nil {
		return nil
	}
	out := &failure{Message: f.Error(), Code: f.Type, Details: f.Details}
	if f.Message != "" {
		out.Message = f.Message
	}
	return out
}

// retried returns a run as a retry leaves it: the steps that it resets wait for their first attempt.
func retried(before, after *api.Run) run {
	ended := map[string]api.Time{}
	for _, s := range before.Steps {
		if !s.Superseded && (s.Phase == api.StepFailed || s.Phase == api.StepTimedOut) {
			ended[s.Step] = s.EndedAt
		}
	}
	out := runOf(after)
	out.Status, out.Error, out.FailedAt, out.NextRunAt = pending, nil, 0, 0
	for _, s := range after.Steps {
		at, failed := ended[s.Step]
		if !failed || s.Superseded || s.Phase.Closed() && s.EndedAt == at {
			continue // a failure after which the run went on is unchanged
		}
		for i := range out.Steps {
			if out.Steps[i].Name == s.Name {
				out.Steps[i], out.Step = stepRun{Name: s.Name, Status: pending}, s.Name
			}
		}
	}
	return out
}

// event is an event of a run.
type event struct {
	ID        int      `json:"id"`
	Type      string   `json:"type"`
	Step      string   `json:"stepName,omitempty"`
	CreatedAt api.Time `json:"createdAt"`
	Payload   payload  `json:"payload"`
}

type payload struct {
	Attempt     int             `json:"attempt,omitempty"`
	NextRetryAt api.Time        `json:"nextRetryAt,omitzero"`
	Error       *failure        `json:"error,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
}

// eventOf returns an event in Stevora's words, or false if it has none for it.
func eventOf(e *api.Event) (event, bool) {
	name := stevora.Event(e.Type, e.Name, e.Attempt, e.Failure != nil)
	out := event{
		ID: e.Seq, Type: name, Step: e.Step, CreatedAt: e.Time,
		Payload: payload{Attempt: e.Attempt, Error: failureOf(e.Failure), Data: e.Data},
	}
	if name == "RETRY_SCHEDULED" {
		out.Payload.NextRetryAt = e.NextAt
	}
	return out, name != ""
}
