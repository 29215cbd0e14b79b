package aether

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/dialect/internal/handlers"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// result finds what a phase condition may name of the task that it judges, with ?? where that follows an output, or a
// quoted text, in which nothing is a name.
var result = regexp.MustCompile(quotedText + `|\boutputs` + parameters + anyName + `(?:\s*\?\?)?|\b[A-Za-z_][\w.]*`)

// judged makes the flow of a task with phaseConditions, which decide how it has ended, and the action that runs it: the
// task's own work, and a step that fails if the conditions say so. A retry of the task is another run of the flow.
func (s *scope) judged(k *task, h *handlers.Handler, payload string, v tree.Value) flow.Action {
	inner := s.converter.scope(s.flows.Name(s.w.name+"."+k.name),
		&template{kind: "dag", name: k.name, tasks: []*task{k}, in: v})
	name := inner.names.Name(k.name)
	run := &flow.Step{
		Name: name, Action: h.Action("input"), Place: s.file.Place(s.place(k)),
		ContinueOn: []flow.Ending{flow.EndFailed, flow.EndError, flow.EndTimeout},
	}
	ended, phase := "steps["+form.Expr(name)+"]", inner.task(name, "phase")
	condition := func(key string) string {
		text := s.file.Text(v, key)
		if text == "" {
			return "false"
		}
		s.places[[2]string{inner.doc.Name, "phase"}] = v.Get(key).Pos()
		return "(" + clauses(text, func(clause string) string { return inner.clause(h, name, clause) }) + ")"
	}
	succeeded, failed, broken := condition("succeeded"), condition("failed"), condition("error")
	inner.doc.Steps = []*flow.Step{run, {
		Name: inner.names.Name("phase"), Needs: []string{name}, Place: s.file.Place(v.Pos()),
		When: flow.V("!" + succeeded + " && (" + failed + " || " + broken + " || " + phase + ` != "Succeeded")`),
		Action: &flow.Fail{
			Kind: flow.V("${{ " + failed + ` ? "failed" : ` + broken + ` ? "error" : ` +
				kindOf(ended+".failure") + " }}"),
			Type:    flow.V("${{ " + ended + `.failure?.type ?? "phaseConditions" }}`),
			Message: flow.V("${{ " + ended + `.failure?.message ?? "its phaseConditions say so" }}`),
			Code:    flow.V("${{ " + ended + ".failure?.code ?? 0 }}"),
		},
	}}
	inner.doc.Output = flow.V("${{ " + h.Output(name) + " }}")
	s.children = append(s.children, inner.doc)
	return &flow.Child{Name: flow.V(inner.doc.Name), Input: flow.V("${{ " + payload + " }}")}
}

// clause rewrites a clause of a phase condition, which judges what a step returned. A condition that names a missing
// output does not hold, unless ?? gives a default.
func (s *scope) clause(h *handlers.Handler, step, clause string) string {
	var there []string
	text := result.ReplaceAllStringFunc(clause, func(found string) string {
		name, otherwise := strings.CutSuffix(found, "??")
		switch parts := partsOf(name); {
		case found[0] == '"' || found[0] == '\'':
			return found
		case parts[0] == "outputs" && len(parts) == 3:
			output := path(h.Output(step), parts[2:])
			if otherwise {
				return output + " ??"
			}
			there = append(there, output+" != nil && ")
			return output
		case len(parts) == 1 && slices.Contains(asked, found):
			return s.task(step, found)
		default:
			return found
		}
	})
	if there == nil {
		return text
	}
	return "(" + strings.Join(there, "") + "(" + text + "))"
}

// kindOf gives the expression of the kind with which a step fails as another one did, of that one's failure. A step can
// fail with three kinds only, and an attempt whose worker is gone is an ordinary error.
func kindOf(failure string) string {
	return `{"failed": "failed", "timeout": "timeout"}[` + failure + `?.kind ?? ""] ?? "error"`
}
