package body

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// Function is a Go workflow as its host and the state machine need it.
type Function struct {
	// Body calls the function. It ends by Thread.Return.
	Body      func(t *Thread)
	TaskLimit time.Duration    // how long the body may take each time it goes on; 0: the host's value
	Hooks     map[string]*Hook // the hooks by the names of their steps
	Retry     *policy.Retry    // the retry policy of its runs
	Execution *policy.Limit
	Run       *policy.Limit
	// Compensation is how long the body may take that was asked to stop; 0: a minute.
	Compensation time.Duration
	Queue        core.RunQueue   // the queue of its runs; without a name: none
	Cron         *cron.Timetable // nil: runs begin when they are started, and none follows
}

// Hook is a function that runs while a run closes.
type Hook struct {
	Spec *core.StepSpec
	Call func(ctx context.Context, p HookPayload) ([]byte, error)
}

// HookPayload is the input of a hook's attempt.
type HookPayload struct {
	Input   json.RawMessage `json:"input"`
	Phase   core.RunPhase   `json:"phase"`
	Failure *policy.Failure `json:"failure,omitempty"`
}

// decider decides for the runs of a Go workflow: their bodies decide the steps. The workflow's options are looked up
// when they are needed, since a run may be read before its workflow is registered.
type decider struct {
	workflow func() *Function
	steps    atomic.Int32 // the number of steps of the run that ended most recently
}

var _ core.Decider = (*decider)(nil)

// Definition returns the Go workflow of that name for the state machine: without its own steps.
func (h *Host) Definition(name string) *core.Definition {
	return Definition(func() *Function { return h.cfg.Workflow(name) })
}

// Definition returns a Go workflow as the state machine sees it. workflow looks it up, each time; nil: its options are
// not known yet.
func Definition(workflow func() *Function) *core.Definition {
	d := &decider{workflow: workflow}
	return &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return d }, HasBody: true, HandlesCancel: true,
		ExpectedSteps: func() int { return int(d.steps.Load()) },
		Rules:         d.rules, Begins: d.begins, Follows: d.follows, RunQueue: d.runQueue,
	}
}

func (d *decider) rules([]byte) core.RunRules {
	if w := d.workflow(); w != nil {
		return core.RunRules{Retry: w.Retry, Execution: w.Execution, Run: w.Run, Compensation: w.Compensation}
	}
	return core.RunRules{}
}

func (d *decider) runQueue([]byte) (core.RunQueue, error) {
	if w := d.workflow(); w != nil {
		return w.Queue, nil
	}
	return core.RunQueue{}, nil
}

func (d *decider) begins(now core.Time) core.Time {
	if w := d.workflow(); w != nil && w.Cron != nil {
		return instantOf(w.Cron.Next(now.Std()))
	}
	return now
}

func (d *decider) follows(_, began, now core.Time) core.Time {
	if w := d.workflow(); w != nil && w.Cron != nil {
		return instantOf(w.Cron.Following(began.Std(), now.Std()))
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
func (d *decider) Decide(r *core.Run, closed []core.StepID, _ core.Time) []core.Command {
	if r.Closing == nil {
		return []core.Command{core.Consult{Closed: closed}}
	}
	d.steps.Store(int32(len(r.Steps)))
	if r.Closing.Phase == core.RunContinued {
		return nil // the chain goes on
	}
	name := HookExit
	if r.Closing.Hook == 0 {
		name = hookOf(r.Closing.Phase)
	}
	var spec *core.StepSpec
	w := d.workflow()
	switch {
	case w == nil && name != "":
		// the end waits until the workflow is registered and its hook is known
		spec = HookSpec(name, policy.Policy{})
	case w != nil && w.Hooks[name] != nil:
		spec = w.Hooks[name].Spec
	default:
		return nil
	}
	return []core.Command{core.Schedule{Spec: spec, Item: -1, Group: core.NoStep}}
}

// The hooks, by the names of their steps.
const (
	HookFailure = "onFailure"
	HookCancel  = "onCancel"
	HookExit    = "onExit"
)

// HookSpec returns the step of a hook.
func HookSpec(name string, p policy.Policy) *core.StepSpec {
	return &core.StepSpec{Name: name, Def: -1, Kind: core.KindTask, Hook: true, Type: TypeHook, Policy: p}
}

func hookOf(phase core.RunPhase) string {
	switch phase {
	case core.RunFailed, core.RunTimedOut:
		return HookFailure
	case core.RunCancelled:
		return HookCancel
	default:
		return ""
	}
}

// Match returns no match: a Go step's retry policy has no expression.
func (d *decider) Match(*core.Run, *core.Step, string, *policy.Failure, []byte, core.Time) judge.Match {
	return judge.Match{}
}

// Task returns a step's input: of a hook, how the run ends.
func (d *decider) Task(r *core.Run, s *core.Step, _ core.Time) ([]byte, *policy.Failure) {
	if s.Spec.Type != TypeHook || r.Closing == nil {
		return s.Spec.Input, nil
	}
	b, err := json.Marshal(HookPayload{Input: r.Input, Phase: r.Closing.Phase, Failure: r.Closing.Failure})
	if err != nil {
		return nil, &policy.Failure{Kind: policy.KindFailed, Type: "hook", Message: err.Error(), NonRetryable: true}
	}
	return b, nil
}

// hook returns the function of a hook's attempt; one that the code no longer has does nothing.
func (h *Host) hook(t core.Task) Func {
	w := h.cfg.Workflow(t.Workflow)
	if w == nil || w.Hooks[t.StepName] == nil {
		return func(context.Context) ([]byte, error) { return nil, nil }
	}
	return func(ctx context.Context) ([]byte, error) {
		var p HookPayload
		if err := json.Unmarshal(t.Payload, &p); err != nil {
			return nil, fmt.Errorf("pawl: the payload of hook %q: %w", t.StepName, err)
		}
		return w.Hooks[t.StepName].Call(ctx, p)
	}
}
