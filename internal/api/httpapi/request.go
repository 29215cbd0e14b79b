package httpapi

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// Text is the part of a body that names or gives the text of a workflow: one of Workflow, Flow and Definition.
type Text struct {
	Workflow   string
	Flow       string
	Definition *api.Definition
}

// StartBody is the body of POST /runs: a start whose workflow is named or given.
type StartBody struct {
	Workflow   string          `json:"workflow,omitempty" doc:"The name of a flow that the server has; see /flows."`
	Flow       string          `json:"flow,omitempty" doc:"The text of a flow file, YAML or JSON."`
	Definition *api.Definition `json:"definition,omitempty" doc:"A definition as it is stored."`
	api.StartRequest
}

// Text returns where the body gives the workflow.
func (b *StartBody) Text() Text { return Text{b.Workflow, b.Flow, b.Definition} }

// Request returns the start of a definition that the body asks for.
func (b *StartBody) Request(d api.Definition) api.StartRequest {
	r := b.StartRequest
	r.Definition = d
	return r
}

// bodyOf returns the body that asks for a start.
func bodyOf(r api.StartRequest) StartBody {
	return StartBody{Definition: &r.Definition, StartRequest: r}
}

// RestartBody is the body of POST /runs/{run}/restart: a restart whose other text may be named or given.
type RestartBody struct {
	Workflow string `json:"workflow,omitempty" doc:"Flow whose text on the server is used, with failed."`
	Flow     string `json:"flow,omitempty" doc:"Another text of the flow, YAML or JSON, with failed."`
	api.RestartRequest
}

// Text returns where the body gives another text; false: it does not.
func (b *RestartBody) Text() (Text, bool) {
	t := Text{b.Workflow, b.Flow, b.Definition}
	return t, t != Text{}
}

// OperateBody is the body of an operation; the operation and its target are in the path.
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
