package pawl

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// machineDefinition decides for the runs of a Go workflow: their bodies decide the steps. What the workflow's options say is looked
// up when it is needed, since a run may be read before its workflow is registered.
type machineDefinition struct {
	host *host
	name string
}

var _ core.Decider = (*machineDefinition)(nil)

// asMachine is the workflow as the state machine sees it: without steps of its own.
func (d *machineDefinition) asMachine() *core.Definition {
	return &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return d }, HasBody: true,
		Rules: d.rules, Begins: d.begins, Follows: d.follows,
	}
}

func (d *machineDefinition) rules() core.RunRules {
	if def := d.host.definition(d.name); def != nil {
		return core.RunRules{Retry: def.retry, Execution: def.execution, Run: def.runLimit}
	}
	return core.RunRules{}
}

func (d *machineDefinition) begins(now core.Time) core.Time {
	if def := d.host.definition(d.name); def != nil && def.cron != nil {
		return instantOf(def.cron.Next(now.Std()))
	}
	return now
}

func (d *machineDefinition) follows(began, now core.Time) core.Time {
	if def := d.host.definition(d.name); def != nil && def.cron != nil {
		return instantOf(def.cron.Following(began.Std(), now.Std()))
	}
	return 0
}

func instantOf(t time.Time) core.Time {
	if t.IsZero() {
		return 0
	}
	return policy.At(t)
}

// Decide leaves the run to its body, except for the hooks of a run that closes.
func (d *machineDefinition) Decide(r *core.Run, closed []core.StepID, _ core.Time) []core.Command {
	if r.Closing == nil {
		return []core.Command{core.Consult{Closed: closed}}
	}
	if r.Closing.Phase == core.RunContinued {
		return nil // the chain goes on
	}
	name := hookExit
	if r.Closing.Hook == 0 {
		name = hookOf(r.Closing.Phase)
	}
	var spec *core.StepSpec
	def := d.host.definition(d.name)
	switch {
	case def == nil && name != "":
		spec = hookSpec(name, policy.Policy{}) // the end waits until the workflow is registered and says what its hook is
	case def != nil && def.hooks[name] != nil:
		spec = def.hooks[name].spec
	default:
		return nil
	}
	return []core.Command{core.Schedule{Spec: spec, Item: -1, Group: core.NoStep}}
}

// The hooks, by the names of their steps.
const (
	hookFailure = "onFailure"
	hookCancel  = "onCancel"
	hookExit    = "onExit"
)

func hookSpec(name string, p policy.Policy) *core.StepSpec {
	return &core.StepSpec{Name: name, Def: -1, Kind: core.KindTask, Hook: true, Type: typeHook, Policy: p}
}

func hookOf(phase core.RunPhase) string {
	switch phase {
	case core.RunFailed, core.RunTimedOut:
		return hookFailure
	case core.RunCancelled:
		return hookCancel
	default:
		return ""
	}
}

// Match is not asked: a Go step's retry policy has no expression.
func (d *machineDefinition) Match(*core.Run, *core.Step, string, *policy.Failure, core.Time) policy.Match {
	return policy.Match{}
}

// hookPayload is what a hook's attempt gets.
type hookPayload struct {
	Input   json.RawMessage `json:"input"`
	Phase   core.RunPhase   `json:"phase"`
	Failure *policy.Failure `json:"failure,omitempty"`
}

// Task returns a step's input: of a hook, how the run ends.
func (d *machineDefinition) Task(r *core.Run, s *core.Step, _ core.Time) ([]byte, *policy.Failure) {
	if s.Spec.Type != typeHook || r.Closing == nil {
		return s.Spec.Input, nil
	}
	b, err := json.Marshal(hookPayload{Input: r.Input, Phase: r.Closing.Phase, Failure: r.Closing.Failure})
	if err != nil {
		return nil, &policy.Failure{Kind: policy.KindFailed, Type: "hook", Message: err.Error(), NonRetryable: true}
	}
	return b, nil
}

// hook returns the function of a hook's attempt; one that the code has no more does nothing.
func (h *host) hook(t core.Task) (stepFunc, error) {
	def := h.definition(t.Workflow)
	if def == nil || def.hooks[t.StepName] == nil {
		return func(context.Context) ([]byte, error) { return nil, nil }, nil
	}
	var p hookPayload
	if err := json.Unmarshal(t.Payload, &p); err != nil {
		return nil, fmt.Errorf("pawl: the payload of hook %q: %w", t.StepName, err)
	}
	return def.hooks[t.StepName].bind(h.codec, p), nil
}

// hookLimit is a hook's budget where its options do not say.
const hookLimit = time.Minute
