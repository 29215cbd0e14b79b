package steep

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// checker reports the errors that Steep's own validator reports for a workflow or a macro, and those at which its
// generator would fail.
type checker struct {
	services map[string]*service // nil: services are not checked
	macros   map[string]*macro
	inputs   map[string]bool // a macro's input parameters: variables with a value
	makes    map[string]bool // every variable that an action makes
	outputs  map[string]bool // outputs of actions, without enumerators
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
		if c.vars[v.id] == nil { // the first of two with one name counts
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

// walk visits actions in the order of the document; those in a for come after it.
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

// cardinality counts what an action gives for a parameter. The number of values of a variable may only be known when
// the workflow runs; such an input is counted then.
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

// yields checks that a for action yields the output of one of its own actions.
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

// ID returns the variable's name, "" for a nil variable.
func (v *variable) ID() string {
	if v == nil {
		return ""
	}
	return v.id
}

// moment is a moment in an action's life: it can begin, or it has ended.
type moment struct {
	a   *action
	end bool
}

// circle finds actions that wait for each other, through dependsOn or the variables that they read. A for action begins
// when its input exists; then each action in it waits for what it needs itself. Its yield exists once it was made, and
// the for action has ended when all actions in it have.
func (c *checker) circle(actions []*action) {
	byID, makers := map[string]*action{}, map[string]*action{}
	yields, outer := map[string]*action{}, map[*action]*action{}
	walk(actions, func(a *action) {
		byID[a.id] = a
		for _, o := range a.outputs {
			makers[o.v.id] = a
		}
		if a.output != nil {
			yields[a.output.id] = a
		}
		for _, inner := range a.actions {
			outer[inner] = a
		}
	})
	var made func(id string) []moment
	made = func(id string) []moment {
		if a := makers[id]; a != nil {
			return []moment{{a, true}}
		}
		a := yields[id]
		if a == nil {
			return nil
		}
		out := []moment{{a: a}}
		for _, y := range []*variable{a.yieldToOutput, a.yieldToInput} {
			if y != nil && y.id != a.enumerator.ID() && y.id != id {
				out = append(out, made(y.id)...)
			}
		}
		return out
	}
	next := func(m moment) []moment {
		if m.end && m.a.kind == kindFor {
			out := []moment{{a: m.a}}
			for _, inner := range m.a.actions {
				out = append(out, moment{inner, true})
			}
			return out
		}
		var out []moment
		if around := outer[m.a]; around != nil {
			out = append(out, moment{a: around})
		}
		for _, need := range m.a.dependsOn {
			if a := byID[need.id]; a != nil {
				out = append(out, moment{a, true})
			}
		}
		for _, p := range m.a.inputs {
			out = append(out, made(p.v.id)...)
		}
		if m.a.input != nil {
			out = append(out, made(m.a.input.id)...)
		}
		return out
	}
	c.follow(actions, next)
}

// follow looks for a circle of moments, and reports the first.
func (c *checker) follow(actions []*action, next func(moment) []moment) {
	state := map[moment]int{}
	var path []moment
	var visit func(m moment) bool
	visit = func(m moment) bool {
		if m.a.kind != kindFor {
			m.end = true
		}
		switch state[m] {
		case 1:
			report(path, m)
			return false
		case 2:
			return true
		}
		state[m] = 1
		path = append(path, m)
		for _, b := range next(m) {
			if !visit(b) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[m] = 2
		return true
	}
	found := false
	walk(actions, func(a *action) {
		found = found || !visit(moment{a, true})
	})
}

func report(path []moment, last moment) {
	first := last.a
	var names []string
	for _, m := range append(path[slices.Index(path, last):], last) {
		if len(names) == 0 || names[len(names)-1] != m.a.label || len(m.a.actions) == 0 {
			names = append(names, m.a.label)
		}
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
