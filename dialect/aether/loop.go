package aether

import (
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// loop makes the step of a task that calls a loop.
func (s *scope) loop(step *flow.Step, k *task, t *template, may ended) {
	inputs := s.parameters(t.inputs, k.arguments, may, k.in.Pos(), "loop "+t.name)
	child := s.converter.scope(s.flows.Name(s.w.name+"."+t.name), t)
	child.outer, child.outerMay = s, may
	body := s.w.templates[t.loop.body]
	if body.kind == "loop" {
		s.file.Fail(t.in.Get("body").Pos(), "let the body be a dag that calls it",
			"the body of loop %q is a loop", t.name)
		return
	}
	arguments := (&reader{s.file}).params(t.in.Get("arguments"), inArguments)
	call := &task{name: body.name, template: body.name, in: flow.V(map[string]any{}), arguments: arguments}
	repeats := t.loop.condition != ""
	if !repeats {
		child.iterates(t)
	} else {
		child.item, child.index = "input.index", "input.index"
	}
	child.step(call)
	out := child.outs[call.name]
	if out == nil {
		return // and it is reported why
	}
	if !repeats {
		s.each(child, t, call, out)
	} else {
		s.repeat(child, t, call, out)
	}
	s.children = append(s.children, child.doc)
	handed := s.hand(inputs)
	if len(child.imports) > 0 {
		handed["outer"] = "${{ " + form.Object(child.imports) + " }}"
	}
	if repeats {
		handed["index"] = 0
	}
	step.Action = &flow.Child{Name: flow.V(child.doc.Name), Input: flow.V(handed)}
	s.aggregate(k, t, out)
}

// iterates adds the inputs that an iteration's body has beside its arguments: the item's fields, or the item.
func (child *scope) iterates(t *template) {
	child.item, child.index = "item", "index"
	items, mappings := t.in.Get("items").Items(), 0
	for _, item := range items {
		if item.IsMapping() {
			mappings++
		}
	}
	child.iterated = map[string]string{"loop_iter.index": "index"}
	switch {
	case mappings == 0 && t.loop.from == "":
		child.iterated["loop_iter.item"] = "item"
	case mappings == len(items) && len(items) > 0:
		child.spread = "item"
	default:
		child.spread = `(type(item) == "map" ? item : {"loop_iter.item": item})`
	}
}

// each runs the body for every item.
func (s *scope) each(child *scope, t *template, call *task, out *outputs) {
	inner := child.doc.Steps[0]
	inner.ForEach = s.items(child, t)
	inner.Concurrency = unbounded
	if t.loop.concurrency > 0 {
		inner.Concurrency = t.loop.concurrency
	}
	prefix := outputOf(call.name)
	all := "map(steps[" + form.Expr(call.name) + "].outputs, #" + strings.TrimPrefix(out.base, prefix) + ")"
	child.doc.Output = flow.V(map[string]any{"all": "${{ " + all + " }}"})
}

// unbounded is a concurrency that nothing reaches, and mostIterations the most that a loop makes.
const (
	unbounded      = 1_000_000
	mostIterations = 100_000
)

// items gives the list of a loop's items, at most maxIterations of them if that is given. A text holds the list as
// JSON, and nothing is a list without items.
func (s *scope) items(child *scope, t *template) tree.Value {
	most, from := t.loop.most, t.loop.from
	if from == "" {
		list, _ := t.in.Get("items").Any().([]any)
		if most > 0 && most < len(list) {
			list = list[:most]
		}
		return flow.V("${{ " + child.value(list, nil, t.in.Get("items").Pos()) + " }}")
	}
	list := child.expression(from, "", nil, t.in.Get("itemsFrom").Pos())
	list = "(let list = " + list + `; list == nil ? [] : type(list) == "string" ? fromJSON(list) : list)`
	if most > 0 {
		list = "take(" + list + ", " + form.Expr(most) + ")"
	}
	return flow.V("${{ " + list + " }}")
}

// aggregate gives what a loop's task returns, from the results of its iterations.
func (s *scope) aggregate(k *task, t *template, body *outputs) {
	a := t.in.Get("aggregate")
	var names []string
	for _, v := range s.file.List(a.Get("parameters"), "parameters of aggregate") {
		name, ok := v.Text()
		if !ok {
			s.file.Fail(v.Pos(), "", "aggregate names parameters, not %s", v)
		}
		names = append(names, name)
	}
	s.file.Ignored(t.in, "aggregate says what of the iterations' outputs counts", "outputs")
	out := &outputs{
		all: outputOf(k.name) + "?.all", strategy: s.file.Text(a, "strategy"), declared: body.declared,
		values: body.values,
	}
	if names != nil {
		out.declared = names
	}
	s.outs[k.name] = out
}

// repeat makes a loop's flow start itself again while its condition holds, however an iteration ends. In the end the
// loop fails as the first iteration did that failed.
func (s *scope) repeat(child *scope, t *template, call *task, out *outputs) {
	endings := []flow.Ending{flow.EndFailed, flow.EndError, flow.EndTimeout}
	child.doc.Steps[0].ContinueOn = endings
	may := func(name string) bool { return name == call.name }
	bound := form.Expr(t.loop.most)
	test := child.expression(t.loop.condition, "", may, t.in.Get("repeatCondition").Pos())
	input := map[string]any{
		"inputs": "${{ input.inputs }}", "workflow": "${{ input.workflow }}",
		"index": "${{ input.index + 1 }}",
	}
	if len(child.imports) > 0 {
		input["outer"] = "${{ input.outer }}"
	}
	again, ended := child.names.Name("again"), child.names.Name("ended")
	first, rest := "steps["+form.Expr(call.name)+"]", "steps["+form.Expr(again)+"]"
	failed := "(" + first + `.phase != "succeeded" ? ` + first + " : " + rest + ").failure"
	place := s.file.Place(t.in.Get("repeatCondition").Pos())
	child.doc.Steps = append(child.doc.Steps, &flow.Step{
		Place: place, Name: again, Needs: []string{call.name},
		When:       flow.V("(" + test + ") && input.index + 1 < " + bound),
		ContinueOn: endings,
		Action:     &flow.Child{Name: flow.V(child.doc.Name), Input: flow.V(input)},
	}, &flow.Step{
		Place: place, Name: ended, Needs: []string{call.name, again},
		When: flow.V(first + `.phase != "succeeded" || !(` + rest + `.phase in ["succeeded", "skipped"])`),
		Action: &flow.Fail{
			Kind: flow.V("${{ " + kindOf(failed) + " }}"), Type: flow.V("${{ " + failed + ".type }}"),
			Message: flow.V("${{ " + failed + ".message }}"),
			Code:    flow.V("${{ " + failed + ".code }}"),
		},
	})
	child.doc.Output = flow.V(map[string]any{
		"all": "${{ concat([" + out.base + "], " + rest + `.phase == "succeeded" ? ` + rest + ".output.all : []) }}",
	})
}
