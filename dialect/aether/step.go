package aether

import (
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/dialect/internal/handlers"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// step makes a task's step.
func (s *scope) step(k *task) {
	step := &flow.Step{Name: s.names.Name(k.name), Needs: k.needs, Place: s.file.Place(s.place(k))}
	for _, v := range []tree.Value{k.in, k.in.Get("when"), k.in.Get("retry").Get("expression")} {
		if !v.IsZero() && v.Pos().Line > 0 {
			s.places[[2]string{s.doc.Name, step.Name}] = v.Pos()
		}
	}
	may := s.needs[k.name]
	if !k.alone {
		if when := s.file.Text(k.in, "when"); when != "" {
			step.When = flow.V(s.expression(when, "", may, k.in.Get("when").Pos()))
		}
		step.ContinueOn = s.continueOn(k)
		if !k.in.Get("hooks").IsZero() {
			s.doc.Steps = append(s.doc.Steps, step)
			s.hooked(step, k, may)
			return
		}
	}
	t := s.w.templates[k.template]
	leaf := t == nil || t.kind == "task"
	if t != nil {
		s.file.Ignored(k.in, "the task calls a "+t.kind, "executor", "inputs", "outputs", "phaseConditions")
	}
	if retry := k.in.Get("retry"); !leaf && !retry.IsZero() {
		s.file.Fail(k.in.Key("retry"),
			"wrap it: a task template whose handler is {flow: "+t.name+"}, and the retry where that is called",
			"task %q calls the %s %q, and retry is for tasks that do something themselves", k.name, t.kind, t.name)
	}
	step.Policy = s.policy(k, t, leaf)
	switch {
	case leaf:
		s.leaf(step, k, t, may)
	case t.kind == "dag":
		step.Action = &flow.Child{
			Name:  flow.V(s.child(t)),
			Input: flow.V(s.hand(s.parameters(t.inputs, k.arguments, may, k.in.Pos(), "dag "+t.name))),
		}
		s.outs[k.name] = s.declare(&outputs{base: outputOf(k.name), declared: []string{}}, t.kind, t.in)
	default:
		s.loop(step, k, t, may)
	}
	s.doc.Steps = append(s.doc.Steps, step)
}

// place returns the place of a task. A generated task has the place of the template that calls it: a loop's body, or an
// entrypoint that is not a dag.
func (s *scope) place(k *task) tree.Pos {
	if at := k.in.Pos(); at.Line > 0 {
		return at
	}
	return s.w.templates[k.template].in.Pos()
}

// continueOn returns the endings after which the dag goes on: those of the task, or otherwise those of its dag.
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
	p, err := Policy(form2)
	s.file.Policy(in, err)
	if limit := p.Get(policy.LimitScheduleToClose); limit != nil {
		limit.Origin = s.file.Origin(in, "timeout")
	}
	if !leaf || k.in.Get("retry").IsZero() {
		p.Retry = nil
		return p
	}
	retry, err := Policy(form.Pick(k.in, "retry"))
	if err != nil {
		s.file.Policy(k.in, err)
		return p
	}
	p.Retry = retry.Retry
	expr := k.in.Get("retry").Get("expression")
	if text, _ := expr.Text(); text != "" {
		s.self = s.returned(k, t)
		p.Retry.When = s.expression(text, k.name, s.needs[k.name], expr.Pos())
	}
	p.Retry = form.Tidy(p.Retry)
	return p
}

// returned returns expressions for the outputs that a failed attempt of a task returned.
func (s *scope) returned(k *task, t *template) *outputs {
	in := k.in
	if t != nil {
		in = t.in
	}
	out := &outputs{base: "failure.output"}
	kind, _ := in.Get("executor").Get("type").Text()
	if h := s.handlers[kind]; h != nil {
		out.base = h.Returned(out.base)
	}
	return s.declare(out, "task", in)
}

// leaf makes the step of a task that does something itself. Its template, if it has one, defines its work.
func (s *scope) leaf(step *flow.Step, k *task, t *template, may ended) {
	in, inputs := k.in, k.inputs
	if t != nil {
		in, inputs = t.in, t.inputs
	}
	executor := in.Get("executor")
	if executor.IsZero() {
		s.file.Fail(k.in.Pos(), "", "task %q has no executor", k.name)
		return
	}
	kind, _ := executor.Get("type").Text()
	parameters := s.parameters(inputs, k.arguments, may, k.in.Pos(), "task "+k.name)
	h := s.handlers[kind]
	if h == nil && !suspends(executor, inputs, k.arguments) {
		s.file.Fail(executor.Get("type").Pos(), handlers.Nearest(kind, s.handlers),
			"there is no handler for the executor %q", kind)
		return
	}
	out := s.declare(&outputs{base: outputOf(k.name)}, "task", in)
	s.outs[k.name] = out
	switch {
	case h == nil || h.Wait || suspends(executor, inputs, k.arguments):
		s.suspend(step, k, in)
	case h.Flow != "":
		inner := s.w.templates[h.Flow]
		if inner == nil || inner.kind != "dag" {
			s.file.Fail(executor.Get("type").Pos(), s.w.nearest(h.Flow, "dag"),
				"the handler of %q runs %q, which is not a dag of the workflow", kind, h.Flow)
			return
		}
		s.unbounded(inner, "give the task that runs it a timeout")
		s.file.Ignored(executor, "the handler runs a dag, which takes parameters", "config")
		(&reader{s.file}).refuse(in, "phaseConditions", "a task whose handler runs a dag ends as the dag does")
		step.Action = &flow.Child{Name: flow.V(s.child(inner)), Input: flow.V(s.hand(parameters))}
	default:
		config := "nil"
		if v := executor.Get("config"); !v.IsZero() {
			before := s.own
			s.own = &parameters // a config can refer to the inputs of its task
			config = s.value(v.Any(), may, v.Pos())
			s.own = before
		}
		payload := form.Object(map[string]string{
			"task": form.Expr(k.name), "parameters": parameters.object(),
			"config": config,
		})
		conditions := in.Get("phaseConditions")
		switch {
		case h.Suspends:
			s.answers(k, in)
			step.Action = s.maySuspend(k, h, payload)
			return
		case !conditions.IsZero():
			step.Action = s.judged(k, h, payload, conditions)
			return
		}
		step.Action = h.Action(payload)
		out.base = h.Output(k.name)
	}
}
