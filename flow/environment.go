package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/expr-lang/expr/types"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// varset is a set of the variables that expressions know.
type varset uint16

const (
	varInput varset = 1 << iota
	varSteps
	varItem
	varIndex
	varAttempt
	varCode
	varFailure
	varRun
	varNow
)

// What may be named where.
const (
	varsRun  = varInput | varRun | varNow                   // before any step
	varsFlow = varsRun | varSteps                           // when, forEach, sleep, wait, output
	varsTask = varsFlow | varAttempt | varCode | varFailure // payloads, retry conditions
	varsItem = varItem | varIndex
	varsHook = varsTask
)

var stepType = types.TypeOf(&stepValue{})

// variables are in the order of their bits.
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
	{"failure", types.TypeOf(&failureValue{}), "it is known in what a step does, in retry.when and in hooks"},
	{"run", types.TypeOf(&runValue{}), ""},
	{"now", types.TypeOf(time.Time{}), ""},
}

// stepValue is a step as expressions see it.
type stepValue struct {
	Phase    string        `expr:"phase"`
	Output   any           `expr:"output"`
	Outputs  any           `expr:"outputs"` // of a forEach: its items' outputs
	Failure  *failureValue `expr:"failure"`
	Attempts int           `expr:"attempts"`
}

// failureValue is a failure as expressions see it.
type failureValue struct {
	Kind    string        `expr:"kind"`
	Type    string        `expr:"type"`
	Message string        `expr:"message"`
	Code    int           `expr:"code"`
	Details any           `expr:"details"`
	Limit   string        `expr:"limit"`
	Cause   *failureValue `expr:"cause"`
}

// runValue is the run as expressions see it.
type runValue struct {
	ID         string    `expr:"id"`
	Workflow   string    `expr:"workflow"`
	WorkflowID string    `expr:"workflowId"`
	Phase      string    `expr:"phase"`
	Attempt    int       `expr:"attempt"` // of the run retry policy, from 1
	StartedAt  time.Time `expr:"startedAt"`
}

// Fields make the JSON of the whole value.
func (v *stepValue) Fields() map[string]any {
	return map[string]any{"phase": v.Phase, "output": v.Output, "attempts": v.Attempts, "failure": v.Failure}
}

// Fields make the JSON of the whole value; what is not known is left out.
func (f *failureValue) Fields() map[string]any {
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
	return out
}

// Fields make the JSON of the whole value.
func (v *runValue) Fields() map[string]any {
	return map[string]any{
		"id": v.ID, "workflow": v.Workflow, "workflowId": v.WorkflowID, "phase": v.Phase, "attempt": v.Attempt,
		"startedAt": v.StartedAt,
	}
}

// fieldsOf lists what a type of this file has, by its Go name.
func fieldsOf(name string) []string {
	for _, v := range []any{stepValue{}, failureValue{}, runValue{}} {
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

// Variable is a further name that a document's expressions know: how a dialect's own expressions are given what their
// language promises them.
type Variable struct {
	Name string
	// Value gives the variable for one evaluation. It must depend on the view only.
	Value func(View) any
}

// View is what a Variable can see of a run.
type View struct{ s *scope }

// Input is the run's input.
func (v View) Input() any {
	input, _ := v.s.values.decodeInput(v.s.run)
	return input
}

// Steps are the names of all steps, in the order of the document.
func (v View) Steps() []string { return v.s.def.language.names }

// Step returns a step's phase ("pending" before it was scheduled), output and last failure.
func (v View) Step(name string) (phase string, output any, failure *policy.Failure) {
	def, ok := v.s.def.language.steps[name]
	if !ok {
		return "", nil, nil
	}
	if v.s.step != nil && v.s.step.Spec.Name == name {
		return v.s.step.Phase.String(), nil, v.s.failure
	}
	value := v.s.stepValue(def)
	if id := v.s.nodes[def].id; int(id) < len(v.s.run.Steps) {
		failure = v.s.run.Steps[id].Failure
	}
	return value.Phase, value.Output, failure
}

// scope is what one evaluation sees.
type scope struct {
	*decider
	run     *core.Run
	step    *core.Step // of a payload or a retry condition
	item    any
	index   int
	attempt int
	failure *policy.Failure
	phase   core.RunPhase
	now     core.Time
	loops   int
}

// values are a run's data, decoded when an expression first asks for it.
type values struct {
	input   any
	decoded bool
	steps   map[int32]*stepValue
}

// environment builds the variables the program names and no others.
func (s *scope) environment(p *program) map[string]any {
	env := make(map[string]any, 4)
	for i, v := range variables {
		if p.vars&(1<<i) != 0 {
			env[v.name] = s.variable(1<<i, p)
		}
	}
	for _, i := range p.extra {
		v := s.def.language.variables[i]
		env[v.Name] = v.Value(View{s})
	}
	env[loopName] = s.loop
	return env
}

func (s *scope) loop() bool {
	if s.loops++; s.loops > maxLoops {
		panic(errLoops)
	}
	return true
}

func (s *scope) variable(v varset, p *program) any {
	switch v {
	case varInput:
		input, err := s.values.decodeInput(s.run)
		if err != nil {
			panic(err) // the input is checked before a run starts
		}
		return input
	case varSteps:
		steps := make(map[string]any, len(p.steps))
		for _, ref := range p.steps {
			steps[ref.name] = s.stepValue(ref.def)
		}
		return steps
	case varItem:
		return s.item
	case varIndex:
		return s.index
	case varAttempt:
		return s.attempt
	case varCode:
		if s.failure != nil {
			return s.failure.Code
		}
		return 0
	case varFailure:
		return failureOf(s.failure)
	case varRun:
		return s.runValue()
	default:
		return s.now.Std()
	}
}

func (s *scope) runValue() *runValue {
	r := s.run
	phase := s.phase
	if phase == 0 {
		phase = core.RunRunning
	}
	id := r.WorkflowID
	if id == "" {
		id = r.ID.String()
	}
	return &runValue{
		ID: r.ID.String(), Workflow: r.Workflow, WorkflowID: id, Phase: phase.String(),
		Attempt: max(r.Chain.Attempt, 1), StartedAt: r.StartedAt.Std(),
	}
}

// stepValue gives a step; a closed one is decoded once.
func (s *scope) stepValue(def int32) *stepValue {
	if v := s.values.steps[def]; v != nil {
		return v
	}
	id := s.nodes[def].id
	if id == core.NoStep {
		return &stepValue{Phase: core.StepPending.String()}
	}
	if int(id) >= len(s.run.Steps) {
		return &stepValue{Phase: core.StepSkipped.String()} // by a command of this very decision
	}
	step := &s.run.Steps[id]
	v := &stepValue{Phase: step.Phase.String(), Attempts: step.Attempt, Failure: failureOf(step.Failure)}
	if output, err := decodeJSON(step.Output); err == nil {
		v.Output = output
	} else {
		v.Output = string(step.Output) // a worker's output that is no JSON is a text
	}
	if step.Spec.Kind == core.KindGroup {
		v.Outputs = v.Output
	}
	if step.Phase.Closed() {
		if s.values.steps == nil {
			s.values.steps = map[int32]*stepValue{}
		}
		s.values.steps[def] = v
	}
	return v
}

func failureOf(f *policy.Failure) *failureValue {
	if f == nil {
		return nil
	}
	v := &failureValue{Kind: f.Kind.String(), Type: f.Type, Message: f.Message, Code: f.Code, Cause: failureOf(f.Cause)}
	v.Details, _ = decodeJSON(f.Details)
	if f.Limit != policy.LimitNone {
		v.Limit = f.Limit.String()
	}
	return v
}

func (v *values) decodeInput(r *core.Run) (any, error) {
	if !v.decoded {
		input, err := decodeJSON(r.Input)
		if err != nil {
			return nil, fmt.Errorf("the run's input is not JSON: %w", err)
		}
		v.input, v.decoded = input, true
	}
	return v.input, nil
}

// decodeJSON reads JSON as expressions like it: whole numbers are integers. No bytes are null.
func decodeJSON(data []byte) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return plain(v), nil
}

// plain replaces the numbers in decoded JSON.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		return tree.ParseNumber(v.String())
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name, value := range v {
			v[name] = plain(value)
		}
	}
	return v
}
