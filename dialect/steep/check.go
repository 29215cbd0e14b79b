package steep

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// checker finds what Steep's own validator finds in a workflow or a macro, and what its generator would stumble over.
type checker struct {
	services map[string]*service // nil: services are not checked
	macros   map[string]*macro
	inputs   map[string]bool // a macro's input parameters: variables with a value
	makes    map[string]bool // every variable that an action makes
	outputs  map[string]bool // those without enumerators
	ids      map[string]tree.Pos
	actions  map[string]bool
	enums    map[string]bool
	vars     map[string]*variable
}

func check(vars []*variable, actions []*action, services map[string]*service, macros map[string]*macro, m *macro) {
	c := &checker{
		services: services, macros: macros, inputs: map[string]bool{}, makes: map[string]bool{},
		outputs: map[string]bool{},
		ids:     map[string]tree.Pos{}, actions: map[string]bool{}, enums: map[string]bool{},
		vars: map[string]*variable{},
	}
	if m != nil {
		c.macro(m)
	}
	for _, v := range vars {
		c.unique(v.file, v.id, v.pos)
		c.reserved(v)
		if c.vars[v.id] == nil { // of two with one name the first counts
			c.vars[v.id] = v
		}
	}
	walk(actions, c.collect)
	walk(actions, c.action)
	c.circle(actions)
	c.scope(actions, nil)
	if m != nil {
		walk(actions, func(a *action) { c.inMacro(m, a) })
	}
}

// walk visits actions in the order of the document, those in a for after it.
func walk(actions []*action, visit func(*action)) {
	for _, a := range actions {
		visit(a)
		walk(a.actions, visit)
	}
}

func (c *checker) unique(f *form.File, id string, pos tree.Pos) {
	if first, twice := c.ids[id]; twice {
		f.Fail(pos, "", "the identifier %q is used on line %d already; variables and actions share their names",
			id, first.Line)
		return
	}
	c.ids[id] = pos
}

func (c *checker) reserved(v *variable) {
	if v != nil && strings.HasPrefix(v.id, "$") {
		v.file.Fail(v.pos, "choose another name", "the variable %q begins with $, which is reserved", v.id)
	}
}

// made takes note of a variable that an action makes.
func (c *checker) made(v *variable) {
	if v == nil {
		return
	}
	c.reserved(v)
	if c.outputs[v.id] {
		v.file.Fail(v.pos, "make a variable for each output", "the variable %q is an output twice", v.id)
	}
	if declared := c.vars[v.id]; declared != nil && !declared.value.IsZero() {
		v.file.Fail(v.pos, "an output's value is made when the workflow runs; to choose its folder use prefix",
			"the output variable %q has a value", v.id)
	}
	c.outputs[v.id], c.makes[v.id] = true, true
}

func (c *checker) collect(a *action) {
	if !strings.HasPrefix(a.id, "$") {
		c.unique(a.file, a.id, a.in.At("id").Pos())
	}
	c.actions[a.id] = true
	for _, o := range a.outputs {
		c.made(o.v)
	}
	c.made(a.output)
	if a.enumerator == nil {
		return
	}
	c.reserved(a.enumerator)
	if c.enums[a.enumerator.id] {
		a.file.Fail(a.enumerator.pos, "", "the enumerator %q is one of another for action already", a.enumerator.id)
	}
	c.enums[a.enumerator.id], c.makes[a.enumerator.id] = true, true
}

func (c *checker) action(a *action) {
	for _, need := range a.dependsOn {
		if !c.actions[need.id] {
			a.file.Fail(need.pos, nearestOf(need.id, c.actions), "there is no action %q to depend on", need.id)
		}
	}
	if a.enumerator != nil && c.outputs[a.enumerator.id] {
		a.file.Fail(a.enumerator.pos, "", "the enumerator %q is used as an output; it may only be an input",
			a.enumerator.id)
	}
	for _, p := range a.inputs {
		c.hasValue(p.v)
	}
	c.hasValue(a.input)
	switch a.kind {
	case kindExecute:
		c.execute(a)
	case kindInclude:
		c.include(a)
	default:
		c.yields(a, a.yieldToOutput)
		c.yields(a, a.yieldToInput)
	}
}

// hasValue checks that a variable that is read gets a value at some time.
func (c *checker) hasValue(v *variable) {
	if v == nil || !v.value.IsZero() || c.makes[v.id] || c.inputs[v.id] {
		return
	}
	declared := c.vars[v.id]
	if declared != nil && !declared.value.IsZero() {
		return
	}
	known := map[string]bool{}
	for id := range c.vars {
		known[id] = true
	}
	for id := range c.makes {
		known[id] = true
	}
	hint := "give it a value under vars, or name it as an action's output"
	if declared == nil {
		if near := nearestOf(v.id, known); near != "" {
			hint = near
		}
	}
	v.file.Fail(v.pos, hint, "the input variable %q has no value and never gets one", v.id)
}

func nearestOf(word string, known map[string]bool) string {
	words := make([]string, 0, len(known))
	for k := range known {
		if !strings.HasPrefix(k, "$") {
			words = append(words, k)
		}
	}
	return nearest.Hint(word, words)
}

// execute checks an action against its service.
func (c *checker) execute(a *action) {
	s := c.services[a.service]
	if c.services == nil {
		return
	}
	if s == nil {
		known := map[string]bool{}
		for id := range c.services {
			known[id] = true
		}
		if a.service != "" {
			a.file.Fail(a.in.Get("service").Pos(), nearestOf(a.service, known),
				"there is no service %q in the services file", a.service)
		}
		return
	}
	s.use()
	for _, list := range []struct {
		params []*param
		output bool
		what   string
	}{{a.inputs, false, "input"}, {a.outputs, true, "output"}} {
		for _, p := range list.params {
			if s.param(p.id, list.output) == nil && p.id != "" {
				a.file.Fail(p.v.pos, s.nearest(p.id, list.output), "service %q has no %s %q", s.id, list.what, p.id)
			}
		}
	}
	for _, p := range s.params {
		c.cardinality(a, s, p)
	}
}

// cardinality counts what an action gives for a parameter. How many values a variable will hold is known when the
// workflow runs; such an input is counted then.
func (c *checker) cardinality(a *action, s *service, p *serviceParam) {
	given, list := 0, a.inputs
	if p.output {
		list = a.outputs
	}
	for _, in := range list {
		if in.id != p.id {
			continue
		}
		value := in.v.value
		if declared := c.vars[in.v.id]; value.IsZero() && declared != nil {
			value = declared.value
		}
		switch {
		case value.IsZero() && !p.output:
			return
		case value.IsList():
			given += len(flat(value))
		default:
			given++
		}
	}
	if given == 0 && !p.output && !p.value.IsZero() && p.low == 1 && p.high == 1 {
		return
	}
	if given < p.low || given > p.high {
		a.file.Fail(a.in.Pos(), "", "parameter %q of service %q is given %d times; its cardinality is %s", p.id, s.id,
			given, p.bounds())
	}
}

// yields checks that a for action yields what one of its own actions makes.
func (c *checker) yields(a *action, v *variable) {
	if v == nil {
		return
	}
	made := map[string]bool{}
	for _, sub := range a.actions {
		for _, o := range sub.outputs {
			made[o.v.id] = true
		}
		if sub.output != nil {
			made[sub.output.id] = true
		}
	}
	if v.id != a.enumerator.ID() && !made[v.id] {
		a.file.Fail(v.pos, nearestOf(v.id, made), "the for action yields %q, which no action in it makes", v.id)
	}
}

// ID is the variable's name; "" of none.
func (v *variable) ID() string {
	if v == nil {
		return ""
	}
	return v.id
}

// circle finds actions that wait for each other, by dependsOn or by what they read. A for waits for what is in it.
func (c *checker) circle(actions []*action) {
	byID, makers := map[string]*action{}, map[string]*action{}
	walk(actions, func(a *action) {
		byID[a.id] = a
		for _, o := range a.outputs {
			makers[o.v.id] = a
		}
		if a.output != nil {
			makers[a.output.id] = a
		}
	})
	next := func(a *action) []*action {
		var out []*action
		for _, need := range a.dependsOn {
			out = append(out, byID[need.id])
		}
		for _, p := range a.inputs {
			out = append(out, makers[p.v.id])
		}
		if a.input != nil {
			out = append(out, makers[a.input.id])
		}
		return append(out, a.actions...)
	}
	state := map[*action]int{}
	var path []*action
	var visit func(a *action) bool
	visit = func(a *action) bool {
		state[a] = 1
		path = append(path, a)
		for _, b := range next(a) {
			if b == nil || state[b] == 2 {
				continue
			}
			if state[b] == 1 {
				report(path, b)
				return false
			}
			if !visit(b) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[a] = 2
		return true
	}
	walk(actions, func(a *action) {
		if state[a] == 0 && len(path) == 0 {
			visit(a)
		}
	})
}

func report(path []*action, first *action) {
	var names []string
	for _, a := range append(path[slices.Index(path, first):], first) {
		names = append(names, a.label)
	}
	if n := len(names); n > 13 {
		names = append(append(names[:10:10], "…"), names[n-1])
	}
	at := first.in.Pos()
	if len(first.dependsOn) > 0 {
		at = first.dependsOn[0].pos
	}
	first.file.Fail(at, "", "the actions wait for each other in a circle: %s", strings.Join(names, " → "))
}

// scope checks that no action reads a variable that only exists inside another for action.
func (c *checker) scope(actions []*action, visible []map[string]bool) {
	frame := map[string]bool{}
	for _, a := range actions {
		for _, o := range a.outputs {
			frame[o.v.id] = true
		}
		if a.output != nil {
			frame[a.output.id] = true
		}
	}
	visible = append(visible, frame)
	seen := func(v *variable) {
		if v == nil || !v.value.IsZero() || !c.makes[v.id] {
			return
		}
		for _, f := range visible {
			if f[v.id] {
				return
			}
		}
		v.file.Fail(v.pos, "use yieldToOutput to bring its values out",
			"the variable %q is visible only inside the for action that makes it", v.id)
	}
	for _, a := range actions {
		for _, p := range a.inputs {
			seen(p.v)
		}
		seen(a.input)
		if a.kind == kindFor {
			inner := append(append([]map[string]bool{}, visible...), map[string]bool{a.enumerator.ID(): true})
			c.scope(a.actions, inner)
		}
	}
}
