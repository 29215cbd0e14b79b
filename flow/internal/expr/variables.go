package expr

import (
	"reflect"
	"time"

	"github.com/expr-lang/expr/types"
)

// Vars is a set of the variables that expressions know.
type Vars uint16

// The variables.
const (
	VarInput Vars = 1 << iota
	VarSteps
	VarItem
	VarIndex
	VarAttempt
	VarCode
	VarFailure
	VarRun
	VarNow
	VarNotice
	// VarPlaceholders allows placeholders, which are not variables: secrets.token and env.NAME, each alone. The worker
	// that executes the task replaces them.
	VarPlaceholders
)

var stepType = types.TypeOf(&Step{})

// variables are listed in the order of their bits.
var variables = []struct {
	name  string
	typ   types.Type
	where string // where it is known
}{
	{"input", types.Any, ""},
	{"steps", types.Any, "a policy that several steps share does not know which steps came before"},
	{"item", types.Any, "only a step with forEach has an item"},
	{"index", types.Int, "only a step with forEach has an item"},
	{"attempt", types.Int, "it is known in what a step does and in retry.when"},
	{"code", types.Int, "it is known in what a step does and in retry.when"},
	{"failure", types.TypeOf(&Failure{}), "it is known in what a step does, in retry.when and in hooks"},
	{"run", types.TypeOf(&Run{}), ""},
	{"now", types.TypeOf(time.Time{}), ""},
	{"notice", types.TypeOf(&Notice{}), "it is known in notify"},
}

// Step is a step as expressions see it.
type Step struct {
	Phase    string   `expr:"phase"`
	Output   any      `expr:"output"`
	Outputs  any      `expr:"outputs"` // only of a forEach: its items' outputs
	Failure  *Failure `expr:"failure"`
	Attempts int      `expr:"attempts"`
	Items    []*Step  `expr:"items"` // only of a step with forEach, matrix or each, where the expression names them
	Name     string   `expr:"name"`  // only of an item
	Index    int      `expr:"index"` // only of a loop, and of a step with each: the item's position
	Actor    any      `expr:"actor"` // only of a wait that an event ended: who sent it
}

// Failure is a failure as expressions see it.
type Failure struct {
	Kind    string   `expr:"kind"`
	Type    string   `expr:"type"`
	Message string   `expr:"message"`
	Code    int      `expr:"code"`
	Details any      `expr:"details"`
	Limit   string   `expr:"limit"`
	Cause   *Failure `expr:"cause"`
	Output  any      `expr:"output"` // only in a retry condition: the value of the failed attempt
}

// Run is the run as expressions see it.
type Run struct {
	ID         string    `expr:"id"`
	Workflow   string    `expr:"workflow"`
	WorkflowID string    `expr:"workflowId"`
	Phase      string    `expr:"phase"`
	Attempt    int       `expr:"attempt"` // number of the attempt by the run's retry policy, from 1
	StartedAt  time.Time `expr:"startedAt"`
	// ScheduledAt is the instant for which the run was started: the firing of a schedule or of cron, however late it
	// began.
	ScheduledAt time.Time `expr:"scheduledAt"`
}

// Notice is the part of a run that a notice can use in expressions.
type Notice struct {
	On      string `expr:"on"` // failure
	Subject string `expr:"subject"`
	Text    string `expr:"text"`
}

// Fields returns the JSON of the whole value.
func (v *Notice) Fields() map[string]any {
	return map[string]any{"on": v.On, "subject": v.Subject, "text": v.Text}
}

// Fields returns the JSON of the whole value.
func (v *Step) Fields() map[string]any {
	out := map[string]any{"phase": v.Phase, "output": v.Output, "attempts": v.Attempts, "failure": v.Failure}
	if v.Name != "" {
		out["name"], out["index"] = v.Name, v.Index
	}
	if v.Actor != nil {
		out["actor"] = v.Actor
	}
	return out
}

// Fields returns the JSON of the whole value; unknown fields are left out.
func (f *Failure) Fields() map[string]any {
	if f == nil {
		return nil
	}
	out := map[string]any{"kind": f.Kind, "type": f.Type, "message": f.Message, "code": f.Code}
	if f.Details != nil {
		out["details"] = f.Details
	}
	if f.Limit != "" {
		out["limit"] = f.Limit
	}
	if f.Cause != nil {
		out["cause"] = f.Cause
	}
	if f.Output != nil {
		out["output"] = f.Output
	}
	return out
}

// Fields returns the JSON of the whole value.
func (v *Run) Fields() map[string]any {
	return map[string]any{
		"id": v.ID, "workflow": v.Workflow, "workflowId": v.WorkflowID, "phase": v.Phase, "attempt": v.Attempt,
		"startedAt": v.StartedAt, "scheduledAt": v.ScheduledAt,
	}
}

// fieldsOf lists the fields of a type of this file, by its Go name.
func fieldsOf(name string) []string {
	for _, v := range []any{Step{}, Failure{}, Run{}, Notice{}} {
		t := reflect.TypeOf(v)
		if t.Name() != name {
			continue
		}
		fields := make([]string, t.NumField())
		for i := range fields {
			fields[i] = t.Field(i).Tag.Get("expr")
		}
		return fields
	}
	return nil
}

// Scope gives the values that one evaluation sees.
type Scope interface {
	// Variable returns the value of a variable; steps are asked for by Step.
	Variable(Vars) any
	// Step returns a step by the number that it was added with.
	Step(number int32) *Step
	// Items returns the items of a step.
	Items(number int32) []*Step
	// Own returns the value of one of the language's own variables, by position.
	Own(i int) any
	// Placeholder writes a placeholder.
	Placeholder(kind byte, name string) string
	// Loop counts an element that a predicate looks at. A Scope embeds a [Budget] for it.
	Loop() bool
}

// Budget limits what the evaluations in one scope may cost together.
type Budget struct{ loops int }

// Loop counts an element that a predicate looks at. It panics when there were too many, which ends the evaluation.
func (b *Budget) Loop() bool {
	if b.loops++; b.loops > maxLoops {
		panic(errLoops)
	}
	return true
}

// value returns a step, with its items if the expression names them.
func (u *StepUse) value(s Scope) *Step {
	v := s.Step(u.Number)
	if !u.items {
		return v
	}
	all := *v
	all.Items = s.Items(u.Number)
	return &all
}

// environment builds the variables the program names and no others.
func (p *Program) environment(s Scope) map[string]any {
	env := make(map[string]any, 4)
	for i, v := range variables {
		switch name := Vars(1) << i; {
		case p.vars&name == 0:
		case name == VarSteps:
			steps := make(map[string]any, len(p.steps))
			for _, ref := range p.steps {
				steps[ref.Name] = ref.value(s)
			}
			env[v.name] = steps
		default:
			env[v.name] = s.Variable(name)
		}
	}
	for _, own := range p.own {
		env[own.name] = s.Own(own.index)
	}
	env[loopName] = s.Loop
	return env
}
