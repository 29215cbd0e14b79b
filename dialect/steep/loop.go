package steep

import (
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// The keys of what an iteration gives back.
const (
	yielded = "output"
	again   = "again"
)

// forStep runs a child flow for each value of the input.
func (s *scope) forStep(u *unit, a *action) {
	list := s.contents(a.input)
	u.needs(list.needs...)
	inner := s.converter.scope(s, s.flows.Name(s.doc.Name+"."+u.step.Name), a.actions)
	inner.known[a.enumerator.id] = &value{expr: "input.item", shape: itemShape(list)}
	inner.all(true)
	outputs := map[string]any{}
	if a.yieldToOutput != nil {
		outputs[yielded] = inner.contents(a.yieldToOutput).template()
	}
	if a.yieldToInput != nil {
		outputs[again] = inner.contents(a.yieldToInput).template()
	}
	if len(outputs) > 0 {
		inner.doc.Output = flow.V(outputs)
	}
	s.children = append(s.children, inner.doc)
	input := s.hand(u, inner)
	made := &value{shape: shapeMany, needs: []string{u.step.Name}}
	if a.yieldToInput != nil {
		loop := s.loop(inner, a)
		input["list"] = listOf(list)
		u.step.Action = &flow.Child{Name: flow.V(loop), Input: flow.V(input)}
		made.expr = "steps[" + literal(u.step.Name) + "].output." + yielded
	} else {
		input["item"] = "${{ item }}"
		u.step.ForEach = listOf(list)
		u.step.Action = &flow.Child{Name: flow.V(inner.doc.Name), Input: flow.V(input)}
		made.expr = collect(u.step.Name, yielded)
	}
	if a.output != nil {
		s.known[a.output.id] = made
		if a.yieldToOutput == nil {
			made.expr, made.constant = "", flow.V([]any{})
		}
	}
}

// collect lists what the iterations gave back under a key; lists in it are flattened, as Steep does.
func collect(step, key string) string {
	return "flatten(map(steps[" + literal(step) + "].outputs, #." + key + "))"
}

// itemShape is the shape of a list's items.
func itemShape(list *value) shape {
	if list.constant.IsZero() && list.shape == shapeAny {
		return shapeAny
	}
	for _, item := range list.constant.Items() {
		if item.IsList() {
			return shapeAny
		}
	}
	return shapeOne
}

// listOf gives a value as a list, of which a single value is one.
func listOf(v *value) tree.Value {
	switch {
	case v.constant.IsList():
		return v.template()
	case !v.constant.IsZero():
		return flow.V([]any{v.template()})
	case v.shape == shapeMany:
		return flow.V("${{ " + v.expression() + " }}")
	default:
		return flow.V("${{ flatten([" + v.expression() + "]) }}")
	}
}

// loop makes the flow of a for action that yields to its own input: all iterations, and then itself with what they
// yielded, until they yield nothing.
func (s *scope) loop(body *scope, a *action) string {
	name := s.flows.Name(body.doc.Name + ".loop")
	pass := func(extra string, v any) tree.Value {
		return flow.V(map[string]any{
			tmpPath: "${{ input." + tmpPath + " }}", outPath: "${{ input." + outPath + " }}",
			"vars": "${{ input.vars ?? {} }}", extra: v,
		})
	}
	more := collect("each", again)
	doc := &flow.Document{File: s.file.Name(), Name: name, Defaults: s.doc.Defaults, Steps: []*flow.Step{
		{
			Name: "each", ForEach: flow.V("${{ input.list }}"),
			Action: &flow.Child{Name: flow.V(body.doc.Name), Input: pass("item", "${{ item }}")},
		},
		{
			Name: again, Needs: []string{"each"}, When: flow.V("len(" + more + ") > 0"),
			Action: &flow.Child{Name: flow.V(name), Input: pass("list", "${{ "+more+" }}")},
		},
	}}
	all := "[]"
	if a.yieldToOutput != nil {
		all = "concat(" + collect("each",
			yielded) + `, steps.again.phase == "succeeded" ? steps.again.output.` + yielded + " : [])"
	}
	doc.Output = flow.V(map[string]any{yielded: "${{ " + all + " }}"})
	s.children = append(s.children, doc)
	return name
}
