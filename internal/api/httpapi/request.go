package httpapi

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// StartBody is the body of POST /runs. The workflow is named or given: one of Workflow, Flow and Definition.
type StartBody struct {
	Workflow    string            `json:"workflow,omitempty" doc:"The name of a flow that the server has; see /flows."`
	Flow        string            `json:"flow,omitempty" doc:"The text of a flow file, YAML or JSON."`
	Definition  *api.Definition   `json:"definition,omitempty" doc:"A definition as it is stored."`
	Input       json.RawMessage   `json:"input,omitempty"`
	WorkflowID  string            `json:"workflowId,omitempty" doc:"Unique among open runs; default: the run's id."`
	Key         string            `json:"key,omitempty" doc:"Idempotency key; it may stand in Idempotency-Key instead."`
	UseExisting bool              `json:"useExisting,omitempty" doc:"Answer with the open run of the workflow id."`
	StartAt     api.Time          `json:"startAt,omitzero"`
	ScheduledAt api.Time          `json:"scheduledAt,omitzero" doc:"The firing of a schedule that the run is for."`
	Zone        string            `json:"zone,omitempty" doc:"The time zone of that firing; default UTC."`
	Timeout     *policy.Limit     `json:"timeout,omitempty" doc:"The run's limit, instead of the workflow's."`
	Deadline    api.Time          `json:"deadline,omitzero" doc:"The run does not live past it."`
	Origin      string            `json:"origin,omitempty" doc:"Where the deadline was set, for people."`
	Actor       string            `json:"actor,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Notify      string            `json:"notify,omitempty" doc:"The workflow id of a run that is told of the end."`
	Labels      map[string]string `json:"labels,omitempty"`
	Queue       *api.RunQueue     `json:"queue,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// Request returns the start of a definition as the body asks for it.
func (b *StartBody) Request(d api.Definition) api.StartRequest {
	return api.StartRequest{
		Definition: d, Input: b.Input, WorkflowID: b.WorkflowID, Key: b.Key, UseExisting: b.UseExisting,
		StartAt: b.StartAt, ScheduledAt: b.ScheduledAt, Zone: b.Zone, Timeout: b.Timeout,
		Deadline: b.Deadline, Origin: b.Origin, Actor: b.Actor,
		Reason: b.Reason, Notify: b.Notify, Labels: b.Labels, Queue: b.Queue, Headers: b.Headers,
	}
}

// bodyOf returns the body that asks for a start.
func bodyOf(r api.StartRequest) StartBody {
	return StartBody{
		Definition: &r.Definition, Input: r.Input, WorkflowID: r.WorkflowID, Key: r.Key, UseExisting: r.UseExisting,
		StartAt: r.StartAt, ScheduledAt: r.ScheduledAt, Zone: r.Zone, Timeout: r.Timeout,
		Deadline: r.Deadline, Origin: r.Origin, Actor: r.Actor,
		Reason: r.Reason, Notify: r.Notify, Labels: r.Labels, Queue: r.Queue, Headers: r.Headers,
	}
}

// RestartBody is the body of POST /runs/{run}/restart.
type RestartBody struct {
	Steps      []string        `json:"steps,omitempty" doc:"Only these run again, and those that have no result."`
	From       string          `json:"from,omitempty" doc:"This step and all that depend on it run again."`
	Failed     bool            `json:"failed,omitempty" doc:"The failed steps run again, and all that depend on them."`
	Workflow   string          `json:"workflow,omitempty" doc:"With failed: the text that the server has of this flow."`
	Flow       string          `json:"flow,omitempty" doc:"With failed: another text of the flow, YAML or JSON."`
	Definition *api.Definition `json:"definition,omitempty" doc:"With failed: a definition as it is stored."`
	Input      json.RawMessage `json:"input,omitempty" doc:"With failed: another input, whole."`
	Actor      string          `json:"actor,omitempty"`
	Reason     string          `json:"reason,omitempty"`
}

// Request returns the restart that the body asks for, without another text.
func (b *RestartBody) Request() api.RestartRequest {
	return api.RestartRequest{
		Steps: b.Steps, From: b.From, Failed: b.Failed, Input: b.Input, Actor: b.Actor, Reason: b.Reason,
	}
}

// Text returns where the body gives another text; nil: it does not.
func (b *RestartBody) Text() *StartBody {
	if b.Workflow == "" && b.Flow == "" && b.Definition == nil {
		return nil
	}
	return &StartBody{Workflow: b.Workflow, Flow: b.Flow, Definition: b.Definition}
}

// OperateBody is the body of an operation; its path says which one and of what.
type OperateBody struct {
	Output    json.RawMessage `json:"output,omitempty" doc:"complete: the step's output."`
	Failure   *policy.Failure `json:"failure,omitempty" doc:"fail: why."`
	Policy    *policy.Policy  `json:"policy,omitempty" doc:"set-policy: the new one."`
	Limit     string          `json:"limit,omitempty" doc:"extend: which deadline; default: the one there is."`
	By        api.Extension   `json:"by,omitzero" doc:"extend: by how much; a minus in front makes it shorter."`
	To        api.Time        `json:"to,omitzero" doc:"extend: until when."`
	Remove    bool            `json:"remove,omitempty" doc:"extend: take the deadline away."`
	StopClock bool            `json:"stopClock,omitempty" doc:"pause: the run's own deadlines stand still."`
	Actor     string          `json:"actor,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

// Operation returns the operation that the body and its path ask for.
func (b *OperateBody) Operation(name, step string) api.Operation {
	return api.Operation{
		Operation: name, Step: step, Output: b.Output, Failure: b.Failure, Policy: b.Policy, Limit: b.Limit, By: b.By,
		To: b.To, Remove: b.Remove, StopClock: b.StopClock, Actor: b.Actor, Reason: b.Reason,
	}
}

func operateBodyOf(op api.Operation) OperateBody {
	return OperateBody{
		Output: op.Output, Failure: op.Failure, Policy: op.Policy, Limit: op.Limit, By: op.By, To: op.To,
		Remove: op.Remove, StopClock: op.StopClock, Actor: op.Actor, Reason: op.Reason,
	}
}
