package aether

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/dialect/internal/handlers"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/policy"
)

// step makes a task's step.
func (s *scope) step(k *task) {
	step := &flow.Step{Name: s.names.Name(k.name), Needs: k.needs}
	for _, v := range []flow.Value{k.in, k.in.Get("when"), k.in.Get("retry").Get("expression")} {
		if !v.IsZero() && v.Pos().Line > 0 {
			s.places[[2]string{s.doc.Name, step.Name}] = v.Pos()
		}
	}
	may := s.needs[k.name]
	if when := s.file.Text(k.in, "when"); when != "" {
		step.When = flow.V(s.expression(when, "", may, k.in.Get("when").Pos()))
	}
	step.ContinueOn = s.continueOn(k)
	t := s.w.templates[k.template]
	leaf := t == nil || t.kind == "task"
	if executor := k.in.Get("executor"); leaf && !executor.IsZero() {
		s.file.Ignored(k.in, "the task has an executor of its own", "template")
	} else {
		s.file.Ignored(k.in, "the task calls a "+kindOf(t), "executor")
	}
	if retry := k.in.Get("retry"); !leaf && !retry.IsZero() {
		s.file.Fail(k.in.Key("retry"), "wrap it: a task template whose handler is {flow: "+t.name+"}, and the retry where that is called",
			"task %q calls the %s %q, and retry is for tasks that do something themselves", k.name, t.kind, t.name)
	}
	step.Policy = s.policy(k, t, leaf)
	switch {
	case leaf:
		s.leaf(step, k, t, may)
	case t.kind == "dag":
		step.Action = &flow.Child{Name: flow.V(s.child(t)), Input: flow.V(s.hand(s.parameters(t.inputs, k.arguments, may, k.in.Pos(), "dag "+t.name)))}
		s.outs[k.name] = direct(k.name)
	default:
		s.loop(step, k, t, may)
	}
	s.doc.Steps = append(s.doc.Steps, step)
}

func kindOf(t *template) string {
	if t == nil {
		return "task"
	}
	return t.kind
}

func direct(task string) func(string) string {
	return func(name string) string { return "steps[" + form.Expr(task) + "].output[" + form.Expr(name) + "]" }
}

// continueOn is the task's own, or as a whole its dag's.
func (s *scope) continueOn(k *task) []flow.Ending {
	v := k.in.Get("continueOn")
	if v.IsZero() {
		v = s.t.in.Get("continueOn")
	}
	if !s.file.Object(v, "continueOn", "failed", "error", "timeout") {
		return nil
	}
	var out []flow.Ending
	for _, e := range []flow.Ending{flow.EndFailed, flow.EndError, flow.EndTimeout} {
		if s.file.Bool(v, string(e)) {
			out = append(out, e)
		}
	}
	return out
}

// policy reads a task's timeout and retry. The call's timeout comes before the template's.
func (s *scope) policy(k *task, t *template, leaf bool) policy.Policy {
	form2 := form.Pick(k.in, "timeout")
	in := k.in
	if form2["timeout"] == nil && t != nil && !t.in.Get("timeout").IsZero() {
		form2, in = form.Pick(t.in, "timeout"), t.in
	}
	p, err := dialect.Policy("aether", form2)
	s.file.Policy(in, err)
	if limit := p.Get(policy.LimitScheduleToClose); limit != nil {
		limit.Origin = s.file.Origin(in, "timeout")
	}
	if !leaf || k.in.Get("retry").IsZero() {
		p.Retry = nil
		return p
	}
	retry, err := dialect.Policy("aether", form.Pick(k.in, "retry"))
	if err != nil {
		s.file.Policy(k.in, err)
		return p
	}
	p.Retry = retry.Retry
	if expr := k.in.Get("retry").Get("expression"); !expr.IsZero() {
		text, _ := expr.Text()
		p.Retry.When = s.expression(text, k.name, s.needs[k.name], expr.Pos())
	}
	p.Retry = form.Tidy(p.Retry)
	return p
}

// leaf makes the step of a task that does something itself.
func (s *scope) leaf(step *flow.Step, k *task, t *template, may map[string]bool) {
	executor := k.in.Get("executor")
	var inputs []*param
	if t != nil {
		inputs = t.inputs
		if executor.IsZero() {
			executor = t.in.Get("executor")
		}
	}
	if executor.IsZero() {
		s.file.Fail(k.in.Pos(), "", "task %q has no executor", k.name)
		return
	}
	kind, _ := executor.Get("type").Text()
	parameters := s.parameters(inputs, k.arguments, may, k.in.Pos(), "task "+k.name)
	h := s.handlers[kind]
	if h == nil && !suspends(executor, inputs, k) {
		s.file.Fail(executor.Get("type").Pos(), handlers.Nearest(kind, s.handlers), "there is no handler for the executor %q", kind)
		return
	}
	switch {
	case h == nil || h.Wait || suspends(executor, inputs, k):
		why := "a task that suspends runs nothing, and its payload is its output"
		s.file.Ignored(k.in, why, "retry")
		if slices.ContainsFunc(k.arguments, func(p *param) bool { return p.name != "suspend" }) {
			s.file.Ignored(k.in, why, "arguments", "inputs")
		}
		step.Action = &flow.Wait{Event: flow.V("resume." + k.name)}
		if limit := step.Policy.Get(policy.LimitScheduleToClose); limit != nil {
			step.Policy.Set(policy.LimitScheduleToClose, nil)
			step.Policy.Set(policy.LimitWait, limit)
		}
		step.Policy.Retry = nil
		s.outs[k.name] = direct(k.name)
	case h.Flow != "":
		inner := s.w.templates[h.Flow]
		if inner == nil || inner.kind != "dag" {
			s.file.Fail(executor.Get("type").Pos(), s.w.nearest(h.Flow), "the handler of %q runs %q, which is no dag of the workflow", kind, h.Flow)
			return
		}
		s.unbounded(inner, "give the task that runs it a timeout")
		s.file.Ignored(executor, "the handler runs a dag, which takes parameters", "config")
		step.Action = &flow.Child{Name: flow.V(s.child(inner)), Input: flow.V(s.hand(parameters))}
		s.outs[k.name] = direct(k.name)
	default:
		config := "nil"
		if v := executor.Get("config"); !v.IsZero() {
			s.own = parameters // a config names the inputs of its task
			config = s.value(v.Any(), may, v.Pos())
			s.own = nil
		}
		step.Action = h.Action(form.Object(map[string]string{"task": form.Expr(k.name), "parameters": form.Object(parameters), "config": config}))
		s.outs[k.name] = func(name string) string { return h.Output(k.name) + "[" + form.Expr(name) + "]" }
	}
}

// suspends tells whether a task is written to suspend: suspend: true in its executor's config, or as a parameter.
func suspends(executor flow.Value, lists ...any) bool {
	if yes, _ := executor.Get("config").Get("suspend").Any().(bool); yes {
		return true
	}
	for _, list := range lists {
		params, _ := list.([]*param)
		if k, ok := list.(*task); ok {
			params = k.arguments
		}
		for _, p := range params {
			if yes, _ := p.value.Any().(bool); p.name == "suspend" && yes {
				return true
			}
		}
	}
	return false
}

// loop makes the step of a task that calls a loop.
func (s *scope) loop(step *flow.Step, k *task, t *template, may map[string]bool) {
	inputs := s.parameters(t.inputs, k.arguments, may, k.in.Pos(), "loop "+t.name)
	child := s.converter.scope(s.flows.Name(s.w.name+"."+t.name), t)
	child.outer, child.outerMay = s, may
	body := s.w.templates[s.file.Text(t.in, "body")]
	if body.kind == "loop" {
		s.file.Fail(t.in.Get("body").Pos(), "let the body be a dag that calls it", "the body of loop %q is a loop", t.name)
		return
	}
	arguments := (&reader{s.file}).params(t.in.Get("arguments"), "arguments")
	call := &task{name: body.name, template: body.name, in: flow.V(map[string]any{}), arguments: arguments}
	child.item, child.index = "item", "index"
	condition := s.file.Text(t.in, "repeatCondition")
	if condition != "" {
		child.item, child.index = "input.index", "input.index"
	}
	child.needs[call.name] = map[string]bool{}
	child.step(call)
	result := trimKey(child.outs[call.name])
	if condition == "" {
		s.each(child, t, call, result)
	} else {
		s.repeat(child, t, call, condition, result)
	}
	s.children = append(s.children, child.doc)
	handed := s.hand(inputs)
	if len(child.imports) > 0 {
		handed["outer"] = "${{ " + form.Object(child.imports) + " }}"
	}
	if condition != "" {
		handed["index"] = 0
	}
	step.Action = &flow.Child{Name: flow.V(child.doc.Name), Input: flow.V(handed)}
	s.aggregate(k, t)
}

// each runs the body for every item.
func (s *scope) each(child *scope, t *template, call *task, result string) {
	inner := child.doc.Steps[0]
	inner.ForEach = s.items(child, t)
	inner.Concurrency = unbounded
	if n := (&reader{s.file}).Whole(t.in, "concurrency", 0, 0, unbounded); n > 0 {
		inner.Concurrency = n
	}
	prefix := "steps[" + form.Expr(call.name) + "].output"
	outputs := "map(steps[" + form.Expr(call.name) + "].outputs, #" + strings.TrimPrefix(result, prefix) + ")"
	child.doc.Output = flow.V(map[string]any{"all": "${{ " + outputs + " }}"})
}

// unbounded is a concurrency that nothing reaches.
const unbounded = 1_000_000

// aggregate says what a loop's task returns of what its iterations did.
func (s *scope) aggregate(k *task, t *template) {
	a := t.in.Get("aggregate")
	for _, v := range s.file.List(a.Get("parameters"), "parameters of aggregate") {
		name, ok := v.Text()
		if !ok {
			s.file.Fail(v.Pos(), "", "aggregate names parameters, not %s", v)
		}
		s.exports[k.name] = append(s.exports[k.name], name)
	}
	strategy := s.file.Text(a, "strategy")
	s.outs[k.name] = func(name string) string {
		all := "map(steps[" + form.Expr(k.name) + "].output.all, #[" + form.Expr(name) + "])"
		switch strategy {
		case "list":
			return all
		case "first":
			return "first(" + all + ")"
		default:
			return "last(" + all + ")"
		}
	}
}

// trimKey takes the parameter off what an output's expression is.
func trimKey(out func(string) string) string {
	if out == nil {
		return "nil"
	}
	return strings.TrimSuffix(out("x"), `["x"]`)
}

func (s *scope) items(child *scope, t *template) flow.Value {
	if from, ok := t.in.Get("itemsFrom").Text(); ok {
		from = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(from), "{{"), "}}")
		return flow.V("${{ " + child.reference(from, "", nil, t.in.Get("itemsFrom").Pos()) + " }}")
	}
	return flow.V("${{ " + child.value(t.in.Get("items").Any(), nil, t.in.Get("items").Pos()) + " }}")
}

// repeat lets a loop's flow start itself again while its condition holds.
func (s *scope) repeat(child *scope, t *template, call *task, condition, result string) {
	may := map[string]bool{call.name: true}
	bound := form.Expr((&reader{s.file}).Whole(t.in, "maxIterations", 1, 1, 100_000))
	test := child.expression(condition, "", may, t.in.Get("repeatCondition").Pos())
	input := map[string]any{"inputs": "${{ input.inputs }}", "workflow": "${{ input.workflow }}", "index": "${{ input.index + 1 }}"}
	if len(child.imports) > 0 {
		input["outer"] = "${{ input.outer }}"
	}
	child.doc.Steps = append(child.doc.Steps, &flow.Step{
		Name: child.names.Name("again"), Needs: []string{call.name}, When: flow.V("(" + test + ") && input.index + 1 < " + bound),
		Action: &flow.Child{Name: flow.V(child.doc.Name), Input: flow.V(input)},
	})
	again := "steps[" + form.Expr(child.doc.Steps[1].Name) + "]"
	child.doc.Output = flow.V(map[string]any{
		"all": "${{ concat([" + result + "], " + again + `.phase == "succeeded" ? ` + again + ".output.all : []) }}",
	})
}

// hooks makes the workflow's hooks. A failure of kind failed is Aether's Failed; every other bad end is its Error.
func (s *scope) hooks() {
	hooks := s.w.spec.Get("hooks")
	if !s.file.Object(hooks, "hooks", "onStart", "onSuccess", "onFailure", "onError", "onTimeout", "onCancel", "onExit", "onSuspend", "onResume") {
		return
	}
	s.file.Ignored(hooks, "the run's own event tells it", "onStart", "onSuspend", "onResume")
	h := &s.doc.Hooks
	for _, hook := range []struct {
		name, when string
		to         *[]*flow.Step
	}{
		{"onSuccess", "", &h.OnSuccess},
		{"onFailure", `failure?.kind == "failed"`, &h.OnFailure},
		{"onError", `failure?.kind != "failed"`, &h.OnFailure},
		{"onTimeout", "", &h.OnTimeout},
		{"onCancel", "", &h.OnCancel},
		{"onExit", "", &h.OnExit},
	} {
		v := hooks.Get(hook.name)
		if !s.file.Object(v, "a hook", "template", "arguments") {
			continue
		}
		step := s.hook(hook.name, v)
		if hook.when != "" {
			step.When = flow.V(hook.when)
		}
		*hook.to = append(*hook.to, step)
	}
}

func (s *scope) hook(name string, v flow.Value) *flow.Step {
	step := &flow.Step{Name: name, Action: &flow.Noop{}}
	called := s.file.Need(v, "the hook", "template")
	t := s.w.templates[called]
	if t == nil || t.kind != "task" {
		s.file.Fail(v.Get("template").Pos(), s.w.nearest(called), "the hook %s needs a task template, and %q is none", name, called)
		return step
	}
	k := &task{name: name, in: v, arguments: (&reader{s.file}).params(v.Get("arguments"), "arguments")}
	s.leaf(step, k, t, nil)
	if _, waits := step.Action.(*flow.Wait); waits {
		s.file.Fail(v.Pos(), "", "the hook %s calls a task that suspends", name)
	}
	return step
}
