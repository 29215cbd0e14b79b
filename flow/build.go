package flow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// maxSteps is how many steps a flow may have. forEach has no such limit, and can be used for more steps of the same
// form.
const maxSteps = 20_000

// defaultHookLimit bounds a hook without a timeout: a hook must not keep a run open forever.
const (
	defaultHookLimit = time.Minute
	hookOrigin       = "default of hooks"
)

// builder compiles a document. It reports errors and goes on, so that all of them are found.
type builder struct {
	*tree.Reports
	doc          *Document
	def          *definition
	compiler     *expr.Compiler
	services     map[string]*Service
	used         map[string]bool // services
	step         string          // the step being compiled, for errors of documents without places
	ordinal      int32           // the ordinal of that step, or -1: every step may be named
	refs         []reference
	placeholders bool           // the payload that is compiled has placeholders
	uses         map[int32]bool // the steps that an expression uses; nil if they are checked
	visited      []int32        // the step from which each was last found upstream, plus 1, by ordinal
	acyclic      bool
}

// reference is a step's use of another one's result.
type reference struct {
	from, to int32
	in       *tree.Node // the text, and where in it
	offset   int
	name     string
}

func build(doc *Document, r *tree.Reports) *definition {
	b := &builder{Reports: r, doc: doc, services: map[string]*Service{}, used: map[string]bool{}, ordinal: -1}
	own := make([]string, len(doc.Variables))
	for i, v := range doc.Variables {
		own[i] = v.Name
	}
	b.def = &definition{
		doc: doc, steps: int32(len(doc.Steps)), byName: make(map[string]int32, len(doc.Steps)),
		whens:    map[string]*expr.Program{},
		refers:   map[string]bool{},
		language: expr.New(own),
	}
	b.def.language.Input = expr.ShapeOf("input", tree.NodeOf(doc.Input))
	b.compiler = &expr.Compiler{
		Language: b.def.language, Source: b.Source, Report: b.stepFail,
		Refers: b.refers,
		Uses: func(step expr.StepUse, in *tree.Node, offset int) {
			if b.uses != nil {
				b.uses[step.Number] = true
			} else if b.ordinal >= 0 {
				b.refs = append(b.refs, reference{b.ordinal, step.Number, in, offset, step.Name})
			}
		},
	}
	if len(doc.Steps) > maxSteps {
		b.Fail(doc.Steps[maxSteps].pos, "use forEach, or child flows", "the flow has %d steps, the limit is %d",
			len(doc.Steps), maxSteps)
		return nil
	}
	b.index()
	b.loops()
	b.needs()
	b.loopNeeds()
	b.watches()
	b.policies()
	b.checkLimits()
	for i, s := range doc.Steps {
		b.plan(int32(i), s)
	}
	b.order()
	b.hooks()
	b.notify()
	b.ordinal, b.step = -1, ""
	b.inputSchema()
	b.cron()
	b.runQueue()
	b.runAmounts()
	if !doc.Output.IsZero() {
		b.def.output = b.compiler.Template(tree.NodeOf(doc.Output), varsFlow, false)
	}
	b.upstream()
	if doc.Input.IsZero() {
		b.def.takes = b.def.language.UsedInput()
	}
	b.def.machine = b.def.asMachine()
	return b.def
}

// stepFail reports an error of the step being compiled.
func (b *builder) stepFail(at tree.Pos, hint, format string, args ...any) {
	b.Add(&tree.Error{Line: at.Line, Col: at.Col, Step: b.step, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// index gives every step its ordinal and finds duplicate names.
func (b *builder) index() {
	b.def.plans = make([]plan, len(b.doc.Steps), len(b.doc.Steps)+8)
	for i, s := range b.doc.Steps {
		if first, twice := b.def.byName[s.Name]; twice && s.Name != "" {
			b.Fail(s.pos, "", "there already is a step %q%s", s.Name, onLine(b.doc.Steps[first].pos))
			continue
		}
		if problem := nameProblem(s.Name); problem != "" && b.Source == nil {
			b.Fail(s.pos, "", "a step's name, %q, %s", s.Name, problem)
		}
		b.def.byName[s.Name] = int32(i)
		b.def.language.AddStep(s.Name, int32(i))
	}
	for _, s := range b.doc.Services {
		b.services[s.Name] = s
	}
}

func onLine(p tree.Pos) string {
	if p.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" on line %d", p.Line)
}

func (b *builder) needs() {
	names := b.def.language.Steps()
	for i, s := range b.doc.Steps {
		b.step = s.Name
		p := &b.def.plans[i]
		for k, need := range s.Needs {
			at := s.pos
			if k < len(s.needsPos) {
				at = s.needsPos[k]
			}
			def, known := b.def.byName[need]
			switch {
			case !known:
				if !b.Full() {
					b.stepFail(at, nearest.Hint(need, names), "there is no step %q to need", need)
				}
			case slices.Contains(p.needs, def):
				b.stepFail(at, "", "%q is needed twice", need)
			case def == int32(i):
				b.stepFail(at, "", "step %q needs itself", need)
			default:
				p.needs = append(p.needs, def)
				b.def.plans[def].dependents = append(b.def.plans[def].dependents, int32(i))
			}
		}
	}
}

// order sorts the steps so that each comes after its needs; those that cannot be sorted form a cycle.
func (b *builder) order() {
	waiting := make([]int, len(b.doc.Steps))
	edges, dependents := make([][]int32, len(waiting)), make([][]int32, len(waiting))
	var ready []int32
	sorted := 0
	for i := range waiting {
		edges[i] = b.edges(int32(i))
		for _, need := range edges[i] {
			dependents[need] = append(dependents[need], int32(i))
		}
		if waiting[i] = len(edges[i]); waiting[i] == 0 {
			ready = append(ready, int32(i))
		}
	}
	for len(ready) > 0 {
		next := ready[0]
		ready = ready[1:]
		sorted++
		for _, d := range dependents[next] {
			if waiting[d]--; waiting[d] == 0 {
				ready = append(ready, d)
			}
		}
	}
	b.acyclic = sorted == len(waiting)
	if b.acyclic {
		return
	}
	// Each step that was not sorted has such a need: following the needs from any of them ends in a circle.
	at := int32(slices.IndexFunc(waiting, func(n int) bool { return n > 0 }))
	var path []int32
	for !slices.Contains(path, at) {
		path = append(path, at)
		needs := edges[at]
		at = needs[slices.IndexFunc(needs, func(n int32) bool { return waiting[n] > 0 })]
	}
	path = path[slices.Index(path, at):]
	first := slices.Index(path, slices.Min(path))
	path = append(path[first:], path[:first]...)
	names := make([]string, 0, len(path)+1)
	for _, def := range path {
		names = append(names, b.doc.Steps[def].Name)
	}
	if len(names) > 12 {
		names = append(names[:10], "…", names[len(names)-1])
	}
	s := b.doc.Steps[path[0]]
	pos := s.pos
	if len(s.needsPos) > 0 {
		pos = s.needsPos[0]
	}
	b.step = s.Name
	b.stepFail(pos, "", "the needs go in a circle: %s", strings.Join(append(names, s.Name), " → "))
}

// plan compiles one step, and with forEach what its items do.
func (b *builder) plan(def int32, s *Step) {
	b.step, b.ordinal = s.Name, def
	p := &b.def.plans[def]
	p.item, p.tolerates, p.step, p.place = -1, s.ContinueOn, s, b.Source.Place(s.pos)
	p.trigger = s.Trigger
	b.checkTrigger(s)
	if !s.When.IsZero() {
		p.when = b.compiler.Condition(tree.NodeOf(s.When), b.flowVars(p))
	}
	spec := b.spec(s)
	spec.Def = def
	p.skipped = spec.Policy.Retry != nil && spec.Policy.Retry.MaxAttempts == 0
	if b.itemName(p, s); !hasList(s) && p.loop < 0 {
		p.spec = spec
		if b.parameters(s, varsTask) {
			b.action(p, s, varsTask)
		}
		return
	}
	p.spec = &core.StepSpec{Name: s.Name, Def: def, Kind: core.KindGroup}
	p.concurrency = s.Concurrency
	if p.concurrency < 0 {
		b.stepFail(s.pos, "", "concurrency is %d; it must be at least 1", s.Concurrency)
	}
	if p.concurrency == 0 {
		p.concurrency = defaultConcurrency
	}
	if !s.ForEach.IsZero() {
		p.list = b.compiler.Template(tree.NodeOf(s.ForEach), b.flowVars(p), false)
	}
	if !s.Matrix.IsZero() {
		p.axes = axesOf(tree.NodeOf(s.Matrix))
		p.list = b.compiler.Template(tree.NodeOf(s.Matrix), b.flowVars(p), false)
	}
	p.item = int32(len(b.def.plans))
	spec.Def = p.item
	item := plan{spec: spec, step: s, place: p.place, tolerates: s.ContinueOn, item: -1, group: def, loop: -1}
	if p.isLoop {
		b.more(def, s)
	} else if b.parameters(s, varsTask|varsItem) {
		b.action(&item, s, varsTask|varsItem)
	}
	b.def.plans = append(b.def.plans, item)
}

// parameters checks the values that a step gives the parameters of its template at their own places: within the
// template, errors would be reported at the template's places.
func (b *builder) parameters(s *Step, vars expr.Vars) (ok bool) {
	before := len(b.Errors)
	for _, value := range s.with {
		b.compiler.Template(value, vars, false)
	}
	return len(b.Errors) == before
}

// flowVars returns the variables of an expression that belongs to no attempt of the step.
func (b *builder) flowVars(p *plan) expr.Vars {
	if p.loop >= 0 {
		return varsFlow | varsItem
	}
	return varsFlow
}

// spec gives what the machine needs to know about a step.
func (b *builder) spec(s *Step) *core.StepSpec {
	settings := b.settings(s)
	spec := &core.StepSpec{Name: s.Name, Queue: settings.Queue, Policy: settings.Policy}
	if settings.Priority != nil {
		spec.Priority = *settings.Priority
	}
	if s.Action != nil {
		s.Action.spec(spec)
	} else if b.Source == nil && !hasList(s) {
		b.stepFail(s.pos, "", "the step does nothing")
	}
	return spec
}

// settings combines a step's settings with those of its service and the document's defaults.
func (b *builder) settings(s *Step) Settings {
	out := b.doc.Defaults
	if s.Service != "" {
		service := b.services[s.Service]
		if service == nil {
			names := make([]string, 0, len(b.services))
			for _, other := range b.doc.Services {
				names = append(names, other.Name)
			}
			hint := nearest.Hint(s.Service, names)
			if hint == "" && len(names) == 0 {
				hint = "the flow has no services"
			}
			b.stepFail(s.service, hint, "there is no service %q", s.Service)
		} else {
			b.used[s.Service] = true
			out = overlay(out, service.Settings)
		}
	}
	if s.Action != nil {
		out.Policy = s.Action.shared(out.Policy)
	}
	return overlay(out, Settings{Policy: s.Policy, Queue: s.Queue, Priority: s.Priority, Key: s.Key})
}

// hooks compiles the steps that run while a run closes.
func (b *builder) hooks() {
	h := &b.doc.Hooks
	for _, stage := range []struct {
		stage hookStage
		steps []*Step
	}{
		{onSuccess, h.OnSuccess},
		{onFailure, h.OnFailure},
		{onTimeout, h.OnTimeout},
		{onCancel, h.OnCancel},
		{onExit, h.OnExit},
	} {
		for _, s := range stage.steps {
			b.hook(stage.stage, s, varsHook)
		}
	}
}

func (b *builder) hook(stage hookStage, s *Step, vars expr.Vars) {
	b.step, b.ordinal = s.Name, -1
	if _, twice := b.def.byName[s.Name]; twice {
		b.stepFail(s.pos, "give it a name of its own", "there already is a step %q", s.Name)
		return
	}
	p := plan{item: -1, loop: -1, step: s, place: b.Source.Place(s.pos), spec: b.spec(s)}
	p.spec.Def, p.spec.Hook = int32(len(b.def.plans)), true
	if _, waits := s.Action.(*Wait); p.spec.Policy.ScheduleToClose == nil && (!waits || p.spec.Policy.Wait == nil) {
		p.spec.Policy.ScheduleToClose = defaultLimit(stage)
	}
	if !s.When.IsZero() {
		p.when = b.compiler.Condition(tree.NodeOf(s.When), vars)
	}
	if b.parameters(s, vars) {
		b.action(&p, s, vars)
	}
	b.def.byName[s.Name] = p.spec.Def
	b.def.stages[stage] = append(b.def.stages[stage], p.spec.Def)
	b.def.plans = append(b.def.plans, p)
}

// defaultLimit returns the limit of a hook that has none.
func defaultLimit(stage hookStage) *policy.Limit {
	if stage >= onNotice {
		return &policy.Limit{After: notifyLimit, Origin: notifyOrigin}
	}
	return &policy.Limit{After: defaultHookLimit, Origin: hookOrigin}
}

func (s *Step) isLoop() bool { return !s.ForEach.IsZero() || !s.Matrix.IsZero() || s.Each != "" }

// upstream checks that the steps which a step uses have ended before it begins.
func (b *builder) upstream() {
	if !b.acyclic {
		return
	}
	b.visited = make([]int32, len(b.doc.Steps))
	from := int32(-1)
	for _, ref := range b.refs {
		if contains32(b.def.plans[ref.from].needs, ref.to) {
			continue
		}
		if ref.from != from {
			from = ref.from
			b.visit(from)
		}
		if b.visited[ref.to] == from+1 {
			continue
		}
		b.step = b.doc.Steps[ref.from].Name
		at := b.Source.Inside(ref.in, ref.offset)
		if ref.to == ref.from {
			b.stepFail(at, "", "step %q uses its own result", ref.name)
			continue
		}
		b.stepFail(at, "add "+ref.name+" to its needs", "steps.%s is used but not needed by %q", ref.name, b.step)
	}
}

// visit marks all steps that a step needs, directly or not.
func (b *builder) visit(def int32) {
	next := []int32{def}
	for len(next) > 0 {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		p := &b.def.plans[last]
		for _, need := range slices.Concat(p.needs, p.watches, []int32{p.loop}) {
			if need < 0 {
				continue
			}
			if b.visited[need] != def+1 {
				b.visited[need] = def + 1
				next = append(next, need)
			}
		}
	}
}

func contains32(list []int32, v int32) bool {
	for _, item := range list {
		if item == v {
			return true
		}
	}
	return false
}

// overlay lays the settings of a step, a service or a hook over those below them.
func overlay(base, over Settings) Settings {
	out := base
	out.Policy = base.Policy.Overlay(over.Policy)
	if over.Queue != "" {
		out.Queue = over.Queue
	}
	if over.Priority != nil {
		out.Priority = over.Priority
	}
	if !over.Key.IsZero() {
		out.Key = over.Key
	}
	if over.Exec != nil {
		out.Exec = overExec(base.Exec, over.Exec)
	}
	if over.HTTP != nil {
		out.HTTP = overHTTP(base.HTTP, over.HTTP)
	}
	return out
}

// overMapping merges two mappings key by key; a null in the upper one removes the key.
func overMapping(base, over tree.Value) tree.Value {
	if base.IsZero() || over.IsZero() {
		if over.IsZero() {
			return base
		}
		return over
	}
	out := &tree.Node{Kind: tree.Mapping, Pos: tree.NodeOf(over).Pos}
	for _, f := range tree.NodeOf(base).Fields {
		if tree.NodeOf(over).Get(f.Name) == nil {
			out.Add(f.Name, f.Pos, f.Value)
		}
	}
	for _, f := range tree.NodeOf(over).Fields {
		if f.Value.Kind != tree.Null {
			out.Add(f.Name, f.Pos, f.Value)
		}
	}
	return tree.ValueOf(out)
}
