package aether

import (
	"slices"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/dialect/internal/handlers"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// resumeEvent is the prefix of the events that resume a task; the task's name follows.
const resumeEvent = "resume."

// suspend makes a step that waits for the event that resumes its task.
func (s *scope) suspend(step *flow.Step, k *task, in tree.Value) {
	why := "a task that suspends runs nothing, and its payload is its output"
	s.file.Ignored(k.in, why, "retry")
	if others := func(p *param) bool { return p.name != "suspend" }; slices.ContainsFunc(append(k.arguments,
		k.inputs...), others) {
		s.file.Ignored(k.in, why, "arguments", "inputs")
	}
	s.answers(k, in)
	step.Action = &flow.Wait{Event: flow.V(resumeEvent + k.name)}
	if limit := step.Policy.Get(policy.LimitScheduleToClose); limit != nil {
		step.Policy.Set(policy.LimitScheduleToClose, nil)
		step.Policy.Set(policy.LimitWait, limit)
	}
	step.Policy.Retry = nil
}

// suspends reports whether a task is declared as suspended: suspend: true in its executor's config, or as a parameter.
func suspends(executor tree.Value, lists ...[]*param) bool {
	if yes, _ := executor.Get("config").Get("suspend").Any().(bool); yes {
		return true
	}
	return slices.ContainsFunc(slices.Concat(lists...), func(p *param) bool {
		yes, _ := p.value.Any().(bool)
		return p.name == "suspend" && yes
	})
}

// answers refuses what would judge a task that suspends.
func (s *scope) answers(k *task, in tree.Value) {
	const why = "a task that suspends ends with what resumes it"
	(&reader{s.file}).refuse(in, "phaseConditions", why)
	if in != k.in {
		(&reader{s.file}).refuse(k.in, "phaseConditions", why)
	}
}

// maySuspend makes the flow of a task whose handler may answer that the task suspends, with the output suspended: true,
// and the action that runs it: what the task does, and a wait for the event that resumes it.
func (s *scope) maySuspend(k *task, h *handlers.Handler, payload string) flow.Action {
	inner := s.converter.scope(s.flows.Name(s.w.name+"."+k.name),
		&template{kind: "dag", name: k.name, tasks: []*task{k}, in: k.in})
	place := s.file.Place(s.place(k))
	name := inner.names.Name(k.name)
	output, resume := h.Output(name), inner.names.Name("resume")
	inner.doc.Steps = []*flow.Step{
		{Name: name, Action: h.Action("input"), Place: place},
		{
			Name: resume, Needs: []string{name}, Place: place,
			// A line suspended=true of $PAWL_OUTPUT is a text.
			When:   flow.V("let o = " + output + `; type(o) == "map" && o.suspended in [true, "true"]`),
			Action: &flow.Wait{Event: flow.V(resumeEvent + k.name)},
		},
	}
	resumed := "steps[" + form.Expr(resume) + "]"
	inner.doc.Output = flow.V("${{ " + resumed + `.phase == "succeeded" ? ` + resumed + ".output : " + output + " }}")
	s.children = append(s.children, inner.doc)
	return &flow.Child{Name: flow.V(inner.doc.Name), Input: flow.V("${{ " + payload + " }}")}
}
