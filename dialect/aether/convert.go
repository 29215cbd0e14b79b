package aether

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/dialect/internal/handlers"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Source is one file.
type Source struct {
	Name string // the name in errors
	Text []byte
}

// defaultTimeout bounds a workflow that does not set a timeout.
const defaultTimeout = time.Hour

// converter makes flows of a workflow that is known to be right.
type converter struct {
	file     *form.File
	w        *workflow
	handlers map[string]*handlers.Handler
	flows    form.Namer
	children []*flow.Document
	byName   map[string]string      // the child flow of a dag template
	places   map[[2]string]tree.Pos // places of the expressions of a flow's step
}

// Convert makes flows of a workflow. The error is a [flow.Errors], each at its place.
func Convert(src, handlerFile Source) (*dialect.Conversion, error) {
	r := &reader{form.Read(src.Name, src.Text)}
	hf := form.Read(handlerFile.Name, handlerFile.Text)
	files := []*form.File{r.File, hf}
	w := r.workflow(r.Root())
	known := handlers.Read(hf, "flow", "wait", "suspends")
	if _, err := form.Finish(files...); err != nil {
		return nil, err
	}
	r.check(w)
	if _, err := form.Finish(files...); err != nil {
		return nil, err
	}
	c := &converter{file: r.File, w: w, handlers: known, byName: map[string]string{}, places: map[[2]string]tree.Pos{}}
	doc := c.root()
	if _, err := form.Finish(files...); err != nil {
		return nil, err
	}
	for _, d := range append([]*flow.Document{doc}, c.children...) {
		_, err := flow.Compile(d)
		c.place(d, err)
	}
	notes, err := form.Finish(files...)
	if err != nil {
		return nil, err
	}
	return &dialect.Conversion{Flow: doc, Children: c.children, Notes: notes}, nil
}

// place reports problems of a flow at the expression of the document that it was made from.
func (c *converter) place(doc *flow.Document, err error) {
	var errs tree.Errors
	if !errors.As(err, &errs) {
		return
	}
	for _, e := range errs {
		at, known := c.places[[2]string{doc.Name, e.Step}]
		if !known {
			at = c.w.spec.Pos()
		}
		c.file.Fail(at, e.Hint, "task %q: %s", e.Step, e.Msg)
	}
}

// root makes the flow of the entrypoint.
func (c *converter) root() *flow.Document {
	s := c.scope(c.flows.Name(c.w.name), c.w.templates[c.w.entrypoint])
	s.args, s.inputs = "input", "input"
	s.doc.Input = s.input()
	c.limit(s.doc)
	if !c.w.spec.Get("priority").IsZero() {
		priority := int32((&reader{c.file}).Whole(c.w.spec, "priority", 500, -1000, 1000))
		s.doc.Defaults.Priority = &priority
	}
	if s.t.kind == "dag" {
		s.unbounded(s.t, "give the workflow a timeout")
		s.dag()
	} else {
		s.only()
	}
	s.hooks()
	return s.doc
}

// input describes what the workflow takes: its arguments, and also those of its entrypoint if that is a dag.
func (s *scope) input() tree.Value {
	properties, required := map[string]any{}, []any{}
	for _, p := range s.w.arguments {
		property := map[string]any{}
		if !p.value.IsZero() {
			property["default"] = p.value.Any()
		}
		properties[p.name] = property
		if p.required && p.value.IsZero() {
			required = append(required, p.name)
		}
	}
	elsewhere := given{own: map[string]string{}, spread: "input"}
	for _, p := range s.t.inputs {
		value := p.value
		if value.IsZero() {
			value = p.fallback
		}
		switch _, argument := properties[p.name]; {
		case s.t.kind != "dag":
		case p.from != "" || p.expr != "":
			elsewhere.own[p.name] = s.param(p, p.fallback, nil)
		case !argument && !value.IsZero():
			properties[p.name] = map[string]any{"default": value.Any()}
		}
	}
	if len(elsewhere.own) > 0 {
		s.own = &elsewhere
	}
	input := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		input["required"] = required
	}
	return flow.V(input)
}

// only makes a step of an entrypoint that is not a dag. Its inputs are the workflow's arguments of the same name. What
// a loop returns is the run's output.
func (s *scope) only() {
	k := &task{name: s.t.name, template: s.t.name, in: flow.V(map[string]any{})}
	for _, p := range s.w.arguments {
		k.arguments = append(k.arguments, &param{
			name: p.name, from: "workflow.arguments.parameters." + p.name,
			pos: p.pos,
		})
	}
	s.step(k)
	if out := s.outs[k.name]; s.t.kind == "loop" && out != nil {
		s.doc.Output = out.whole()
	}
}

// limit reads the workflow's timeout: an hour by default, none with 0s.
func (c *converter) limit(doc *flow.Document) {
	after, origin := defaultTimeout, "default of Aether"
	if text, ok := c.w.spec.Get("timeout").Text(); ok && text == "0s" {
		return
	}
	if p, err := Policy(form.Pick(c.w.spec, "timeout")); err != nil {
		c.file.Policy(c.w.spec, err)
	} else if limit := p.Get(policy.LimitScheduleToClose); limit != nil {
		after, origin = limit.After, c.file.Origin(c.w.spec, "timeout")
	}
	doc.Limits.Run = &policy.Limit{After: after, Origin: origin}
}

func (c *converter) scope(name string, t *template) *scope {
	return &scope{
		converter: c, t: t, outs: map[string]*outputs{},
		doc: &flow.Document{
			File: c.file.Name(), Name: name, Place: c.file.Place(t.in.Pos()), Input: flow.V(true),
		},
		needs: map[string]ended{}, inputs: "input.inputs", args: "input.workflow",
	}
}

// dag makes a step of each task.
func (s *scope) dag() {
	done := map[string]bool{}
	byName := map[string]*task{}
	for _, k := range s.t.tasks {
		byName[k.name] = k
	}
	var make func(k *task)
	make = func(k *task) {
		if done[k.name] {
			return
		}
		done[k.name] = true
		for _, need := range k.needs {
			make(byName[need])
		}
		s.needs[k.name] = func(name string) bool { return waitsFor(k, name, byName) }
		s.step(k)
	}
	for _, k := range s.t.tasks {
		make(k)
	}
	all := func(name string) bool { return byName[name] != nil }
	outputs := map[string]any{}
	for _, p := range (&reader{s.file}).params(s.t.in.Get("outputs"), inOutputs) {
		if p.given() {
			outputs[p.name] = "${{ " + s.param(p, tree.Value{}, all) + " }}"
		}
	}
	if len(outputs) > 0 {
		s.doc.Output = flow.V(outputs)
	}
}

// waitsFor reports whether a task depends on another, directly or not.
func waitsFor(k *task, other string, byName map[string]*task) bool {
	found := map[string]bool{}
	for left := []*task{k}; len(left) > 0; left = left[1:] {
		for _, need := range left[0].needs {
			if need == other {
				return true
			}
			if !found[need] {
				found[need] = true
				left = append(left, byName[need])
			}
		}
	}
	return false
}

// child makes the flow of a dag template, once, and returns its name.
func (c *converter) child(t *template) string {
	if name := c.byName[t.name]; name != "" {
		return name
	}
	s := c.scope(c.flows.Name(c.w.name+"."+t.name), t)
	c.byName[t.name] = s.doc.Name
	s.dag()
	c.children = append(c.children, s.doc)
	return s.doc.Name
}

// unbounded notes a dag's timeout where no step calls the dag.
func (s *scope) unbounded(t *template, instead string) {
	s.file.Ignored(t.in, "nothing calls the dag as a task; "+instead, "timeout")
}

// hand returns the input of a child flow.
func (s *scope) hand(inputs given) map[string]any {
	return map[string]any{"inputs": "${{ " + inputs.object() + " }}", "workflow": "${{ " + s.args + " }}"}
}
