package flow

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Variable is a further name that a document's expressions know: how a dialect's own expressions are given what their
// language promises them.
type Variable struct {
	Name string
	// Value gives the variable for one evaluation. It must depend on the view only.
	Value func(View) any
}

// View is the part of a run that a Variable can see.
type View struct{ s *scope }

// Input returns the run's input.
func (v View) Input() any {
	input, _ := v.s.values.decodeInput(v.s.run)
	return input
}

// Steps returns the names of all steps, in the order of the document.
func (v View) Steps() []string { return v.s.def.language.Steps() }

// Step returns a step's phase ("pending" before it was scheduled), output and last failure.
func (v View) Step(name string) (phase string, output any, failure *policy.Failure) {
	def, ok := v.s.def.language.Step(name)
	if !ok {
		return "", nil, nil
	}
	if v.s.step != nil && v.s.step.Spec.Name == name {
		return v.s.step.Phase.String(), nil, v.s.failure
	}
	value := v.s.Step(def)
	if id := v.s.nodes[def].id; int(id) < len(v.s.run.Steps) {
		failure = v.s.run.Steps[id].Failure
	}
	return value.Phase, value.Output, failure
}

// The names that expressions may use, by place.
const (
	varsRun  = expr.VarInput | expr.VarRun | expr.VarNow                   // places before any step
	varsFlow = varsRun | expr.VarSteps                                     // when, forEach, sleep, wait, output
	varsTask = varsFlow | expr.VarAttempt | expr.VarCode | expr.VarFailure // payloads, retry conditions
	varsItem = expr.VarItem | expr.VarIndex
	varsHook = varsTask
)

// scope is the part of a run that one evaluation sees.
type scope struct {
	expr.Budget
	*decider
	run     *core.Run
	step    *core.Step // the step of a payload or a retry condition
	item    any
	index   int
	around  int32 // the ordinal of the loop whose item the index is, plus 1; 0 if there is none
	attempt int
	failure *policy.Failure
	phase   core.RunPhase
	now     core.Time

	mark     string // begins the placeholders of the task that is made
	returned []byte // only of a retry condition: the value that the attempt returned although it failed
}

// values are a run's data, decoded when an expression first uses it.
type values struct {
	input   any
	decoded bool
	steps   map[int32]*expr.Step
}

// Own returns the value of a variable of the document's own.
func (s *scope) Own(i int) any { return s.def.doc.Variables[i].Value(View{s}) }

// Variable returns the value of a variable.
func (s *scope) Variable(v expr.Vars) any {
	switch v {
	case expr.VarInput:
		input, err := s.values.decodeInput(s.run)
		if err != nil {
			panic(err) // the input is checked before a run starts
		}
		return input
	case expr.VarItem:
		return s.item
	case expr.VarIndex:
		return s.index
	case expr.VarAttempt:
		return s.attempt
	case expr.VarCode:
		if s.failure != nil {
			return s.failure.Code
		}
		return 0
	case expr.VarFailure:
		v := failureOf(s.failure)
		if len(s.returned) > 0 {
			v.Output, _ = expr.Decode(s.returned) // nil if it is not JSON
		}
		return v
	case expr.VarRun:
		return s.runValue()
	case expr.VarNotice:
		return s.notice()
	default:
		return s.now.Std()
	}
}

func (s *scope) runValue() *expr.Run {
	r := s.run
	phase := s.phase
	if phase == 0 {
		phase = core.RunRunning
	}
	id := r.WorkflowID
	if id == "" {
		id = r.ID.String()
	}
	return &expr.Run{
		ID: r.ID.String(), Workflow: r.Workflow, WorkflowID: id, Phase: phase.String(),
		Attempt: max(r.Chain.Attempt, 1), StartedAt: r.StartedAt.Std(),
		ScheduledAt: scheduledAt(r),
	}
}

// scheduledAt returns the instant for which a run was started, in the time zone of its schedule.
func scheduledAt(r *core.Run) time.Time {
	at := r.ScheduledFor().Std()
	zone, known := zones.Load(r.Zone)
	if !known {
		read, err := time.LoadLocation(r.Zone)
		if err != nil { // it was known when the schedule was made
			return at
		}
		zone, _ = zones.LoadOrStore(r.Zone, read)
	}
	return at.In(zone.(*time.Location))
}

// zones has the time zones of schedules, by name: reading one reads a file.
var zones sync.Map

// Step returns a step. One that is closed is decoded once.
func (s *scope) Step(def int32) *expr.Step {
	if s.around > 0 {
		if v := s.stepInLoop(def); v != nil {
			return v
		}
	}
	if v := s.values.steps[def]; v != nil {
		return v
	}
	id := s.nodes[def].id
	if id == core.NoStep {
		return &expr.Step{Phase: core.StepPending.String()}
	}
	if int(id) >= len(s.run.Steps) {
		return &expr.Step{Phase: core.StepSkipped.String()} // skipped by a command of this very decision
	}
	step := &s.run.Steps[id]
	v := s.valueOf(step)
	if step.Spec.Kind == core.KindGroup {
		v.Outputs = v.Output
	}
	if step.Phase.Closed() {
		if s.values.steps == nil {
			s.values.steps = map[int32]*expr.Step{}
		}
		s.values.steps[def] = v
	}
	return v
}

func (s *scope) valueOf(step *core.Step) *expr.Step {
	v := &expr.Step{Phase: step.Phase.String(), Attempts: step.Attempt, Failure: failureOf(step.Failure)}
	if actor := core.SentBy(s.run, step.ID); actor != "" {
		v.Actor = actor
	}
	if output, err := expr.Decode(step.Output); err == nil {
		v.Output = output
	} else {
		v.Output = string(step.Output) // a worker's output that is not JSON is a text
	}
	return v
}

// stepInLoop returns a step as an item of a loop sees it: what belongs to that item. It returns nil if the step has
// nothing to do with the loop.
func (s *scope) stepInLoop(def int32) *expr.Step {
	from, p := s.around-1, &s.def.plans[def]
	path := s.def.plans[from].path
	if p.isLoop && slices.Contains(path, def) {
		n := s.up(from, int32(s.index), def)
		return &expr.Step{
			Phase: core.StepSucceeded.String(), Output: s.loopOf(def).items[n].value, Index: int(n),
		}
	}
	at := p.loop
	if at < 0 {
		return nil
	}
	common := s.def.common(from, at)
	if common < 0 {
		return nil
	}
	n := s.up(from, int32(s.index), common)
	if at == common && !p.isLoop {
		return s.itemValue(def, n)
	}
	if p.isLoop {
		at = def
	}
	var list []any
	s.beneath(common, n, at, func(n int32) bool {
		if p.isLoop {
			list = append(list, s.loopOf(def).items[n].value)
		} else {
			list = append(list, s.itemValue(def, n).Output)
		}
		return true
	})
	if list == nil {
		list = []any{}
	}
	return &expr.Step{Phase: core.StepSucceeded.String(), Output: list, Outputs: list}
}

// itemValue returns one item of a step with each.
func (s *scope) itemValue(def, n int32) *expr.Step {
	g := s.groupOf(def)
	if int(n) >= len(g.items) || g.items[n] == core.NoStep || int(g.items[n]) >= len(s.run.Steps) {
		if id := s.nodes[def].id; int(id) < len(s.run.Steps) && s.run.Steps[id].Phase.Closed() {
			return &expr.Step{Phase: s.run.Steps[id].Phase.String(), Failure: failureOf(s.run.Steps[id].Failure)}
		}
		return &expr.Step{Phase: core.StepPending.String()}
	}
	v := s.valueOf(&s.run.Steps[g.items[n]])
	v.Index = int(n)
	return v
}

func failureOf(f *policy.Failure) *expr.Failure {
	if f == nil {
		return nil
	}
	v := &expr.Failure{Kind: f.Kind.String(), Type: f.Type, Message: f.Message, Code: f.Code, Cause: failureOf(f.Cause)}
	v.Details, _ = expr.Decode(f.Details)
	if f.Limit != policy.LimitNone {
		v.Limit = f.Limit.String()
	}
	return v
}

func (v *values) decodeInput(r *core.Run) (any, error) {
	if !v.decoded {
		input, err := expr.Decode(r.Input)
		if err != nil {
			return nil, fmt.Errorf("the run's input is not JSON: %w", err)
		}
		v.input, v.decoded = input, true
	}
	return v.input, nil
}
