package aether

import (
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// The questions about a run's failure that the condition of a hook asks. A failure of kind failed is Aether's Failed;
// of a workflow every other bad end is its Error, of a task every one but its Timeout.
const (
	hasFailed = `failure?.kind == "failed"`
	hasError  = `failure?.kind != "failed"`
	brokeDown = `!(failure?.kind in ["failed", "timeout"])`
	tookLong  = `failure?.kind == "timeout"`
)

// hooks makes the workflow's hooks.
func (s *scope) hooks() {
	h := &s.doc.Hooks
	s.hooksOf(s.w.spec.Get("hooks"), nil, []hookOf{
		{"onSuccess", "", &h.OnSuccess, ""},
		{"onFailure", hasFailed, &h.OnFailure, ""},
		{"onError", hasError, &h.OnFailure, ""},
		{"onTimeout", "", &h.OnTimeout, ""},
		{"onCancel", "", &h.OnCancel, ""},
		{"onExit", "", &h.OnExit, ""},
	})
}

// hookOf is a hook of Aether with its condition, its place in a flow, and its name there, which differs from Aether's
// because a flow has its own names for hooks.
type hookOf struct {
	name, when string
	to         *[]*flow.Step
	as         string
}

// hooksOf makes the hooks of a workflow or a task. may holds the tasks that their arguments may name.
func (s *scope) hooksOf(hooks tree.Value, may ended, all []hookOf) {
	if !s.file.Object(hooks, "hooks", "onStart", "onSuccess", "onFailure", "onError", "onTimeout", "onCancel",
		"onExit", "onSuspend", "onResume") {
		return
	}
	s.file.Ignored(hooks, "the run's own event tells it", "onStart", "onSuspend", "onResume")
	for _, hook := range all {
		v := hooks.Get(hook.name)
		if !s.file.Object(v, "a hook", "template", "arguments") {
			continue
		}
		step := s.hook(hook.name, v, may)
		if hook.as != "" {
			step.Name = hook.as
		}
		if hook.when != "" {
			step.When = flow.V(hook.when)
		}
		*hook.to = append(*hook.to, step)
	}
}

func (s *scope) hook(name string, v tree.Value, may ended) *flow.Step {
	step := &flow.Step{Name: name, Action: &flow.Noop{}, Place: s.file.Place(v.Pos())}
	called := s.file.Need(v, "the hook", "template")
	t := s.w.templates[called]
	if t == nil || t.kind != "task" {
		s.file.Fail(v.Get("template").Pos(), s.w.nearest(called, "task"),
			"the hook %s needs a task template, and %q is not one", name, called)
		return step
	}
	k := &task{name: name, in: v, arguments: (&reader{s.file}).params(v.Get("arguments"), inArguments)}
	s.leaf(step, k, t, may)
	kind, _ := t.in.Get("executor").Get("type").Text()
	if _, waits := step.Action.(*flow.Wait); waits || s.handlers[kind] != nil && s.handlers[kind].Suspends {
		s.file.Fail(v.Pos(), "", "the hook %s calls a task that suspends", name)
	}
	return step
}

// hooked makes the flow of a task with hooks, and the action that runs it. The task is the flow's only step and has its
// timeout and its retry there, so the hooks of the flow run once, after the last attempt. A retry of the run is another
// run of the flow, after which they run again.
func (s *scope) hooked(step *flow.Step, k *task, may ended) {
	child := s.converter.scope(s.flows.Name(s.w.name+"."+k.name),
		&template{kind: "dag", name: k.name, tasks: []*task{k}, in: k.in})
	child.outer, child.outerMay = s, may
	alone := *k
	alone.needs, alone.alone = nil, true
	child.step(&alone)
	out := child.outs[k.name]
	if out == nil {
		return // and it is reported why
	}
	child.timedOut(k)
	h := &child.doc.Hooks
	child.hooksOf(k.in.Get("hooks"), func(name string) bool { return name == k.name }, []hookOf{
		{"onSuccess", "", &h.OnSuccess, ""},
		{"onFailure", hasFailed, &h.OnFailure, ""},
		{"onError", brokeDown, &h.OnFailure, ""},
		{"onTimeout", tookLong, &h.OnFailure, "onTimedOut"},
		{"onCancel", "", &h.OnCancel, ""},
		{"onExit", "", &h.OnExit, ""},
	})
	handed := map[string]any{"inputs": "${{ " + s.inputs + " }}", "workflow": "${{ " + s.args + " }}"}
	if len(child.imports) > 0 {
		handed["outer"] = "${{ " + form.Object(child.imports) + " }}"
	}
	s.children = append(s.children, child.doc)
	step.Action = &flow.Child{Name: flow.V(child.doc.Name), Input: flow.V(handed)}
	called := &outputs{base: outputOf(k.name), strategy: out.strategy, declared: out.declared, values: out.values}
	if out.all == "" {
		child.doc.Output = flow.V("${{ " + out.base + " }}")
	} else {
		called.all = outputOf(k.name) + "?.all"
		child.doc.Output = flow.V(map[string]any{"all": "${{ " + out.all + " }}"})
	}
	s.outs[k.name] = called
}

// timedOut makes the flow of a task with hooks fail with a timeout if its task has timed out. The failure of a step
// that a limit ended is another one to the run that called the flow: an error.
func (s *scope) timedOut(k *task) {
	inner := s.doc.Steps[0]
	inner.ContinueOn = []flow.Ending{flow.EndTimeout}
	ended := "steps[" + form.Expr(k.name) + "]"
	s.doc.Steps = append(s.doc.Steps, &flow.Step{
		Name: s.names.Name("timeout"), Needs: []string{k.name}, Place: inner.Place,
		When: flow.V(ended + `.phase == "timed_out"`),
		Action: &flow.Fail{
			Kind: flow.V("timeout"), Type: flow.V("${{ " + ended + `.failure?.type ?? "" }}`),
			Message: flow.V("${{ " + ended + `.failure?.message ?? "" }}`),
			Code:    flow.V("${{ " + ended + ".failure?.code ?? 0 }}"),
		},
	})
}
