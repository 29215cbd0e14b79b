package steep

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
)

// scope is a flow in the making: the workflow, an iteration of a for action, or a process chain.
type scope struct {
	*converter
	outer  *scope
	doc    *flow.Document
	names  form.Namer
	units  []*unit
	unitOf map[*action]*unit
	makers map[string]*unit
	known  map[string]*value
	listed map[string]*value // the files of directories
	// What the step that starts this flow must have: variables of the scope outside, and steps to wait for.
	imports    map[string]*value
	outerNeeds []string
}

// unit is what becomes one step: an action, or a chain of them.
type unit struct {
	actions []*action
	step    *flow.Step
	chain   bool
}

// scope prepares a flow for a list of actions.
func (c *converter) scope(outer *scope, name string, actions []*action) *scope {
	s := &scope{
		converter: c, outer: outer, doc: &flow.Document{File: c.file.Name(), Name: name}, unitOf: map[*action]*unit{},
		makers: map[string]*unit{}, known: map[string]*value{}, listed: map[string]*value{},
		imports: map[string]*value{},
	}
	s.doc.Defaults.Priority = c.w.priority
	for _, a := range actions {
		s.units = append(s.units, &unit{actions: []*action{a}})
	}
	return s
}

// all makes the steps. With chains set, what Steep makes process chains of is brought together where chains are
// retried, and remembered where they are not.
func (s *scope) all(chains bool) {
	s.index()
	var linked []*unit
	if chains {
		linked = s.link()
	}
	retried := chains && s.chains != nil
	if retried {
		s.units = linked
		s.index()
	}
	for _, u := range s.units {
		s.step(u)
	}
	if !retried {
		s.remember(linked)
	}
	if len(s.doc.Steps) == 0 {
		s.doc.Steps = []*flow.Step{{Name: "nothing", Action: &flow.Noop{}}}
	}
}

func (s *scope) index() {
	s.unitOf, s.makers = map[*action]*unit{}, map[string]*unit{}
	for _, u := range s.units {
		walk(u.actions, func(a *action) { s.unitOf[a] = u })
		for _, a := range u.actions {
			for _, id := range makes(a) {
				s.makers[id] = u
			}
		}
	}
}

// makes lists the variables that an action makes for the scope it stands in.
func makes(a *action) []string {
	var ids []string
	for _, o := range a.outputs {
		ids = append(ids, o.v.id)
	}
	if a.output != nil {
		ids = append(ids, a.output.id)
	}
	return ids
}

// before lists the units of this scope that an action waits for directly.
func (s *scope) before(a *action) []*unit {
	var out []*unit
	add := func(u *unit) {
		if u != nil && u != s.unitOf[a] && !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	walk([]*action{a}, func(b *action) {
		for _, p := range b.inputs {
			add(s.makers[p.v.id])
		}
		if b.input != nil {
			add(s.makers[b.input.id])
		}
		for _, need := range b.dependsOn {
			for _, target := range s.targets.find(need.id) {
				add(s.unitOf[target])
			}
		}
	})
	return out
}

// step makes a unit's step, after those it needs.
func (s *scope) step(u *unit) string {
	if u.step != nil {
		return u.step.Name
	}
	a := u.actions[0]
	u.step = &flow.Step{Name: s.names.Name(a.label), Place: a.file.Place(a.in.Pos())}
	if a.label == a.id {
		a.file.Renamed(a.in.At("id").Pos(), a.id, u.step.Name)
	}
	switch {
	case u.chain:
		s.chainStep(u)
	case a.kind == kindFor:
		s.forStep(u, a)
	default:
		s.execStep(u, a)
	}
	for _, b := range u.actions {
		s.waitFor(u, b)
	}
	s.doc.Steps = append(s.doc.Steps, u.step)
	return u.step.Name
}

// waitFor adds what dependsOn asks for, here or in a scope outside.
func (s *scope) waitFor(u *unit, a *action) {
	for _, need := range a.dependsOn {
		for _, target := range s.targets.find(need.id) {
			if other := s.unitOf[target]; other == u {
				continue
			} else if other != nil {
				u.needs(s.step(other))
				continue
			}
			inner := s
			for out := s.outer; out != nil; inner, out = out, out.outer {
				if other := out.unitOf[target]; other != nil {
					inner.outerNeeds = append(inner.outerNeeds, out.step(other))
					break
				}
			}
		}
	}
}

func (u *unit) needs(steps ...string) {
	for _, name := range steps {
		if name != u.step.Name && !slices.Contains(u.step.Needs, name) {
			u.step.Needs = append(u.step.Needs, name)
		}
	}
}

// lookup finds a variable's value, making the step that gives it first.
func (s *scope) lookup(v *variable) *value {
	if !v.value.IsZero() {
		return constantValue(v.value)
	}
	if known := s.known[v.id]; known != nil {
		return known
	}
	if u := s.makers[v.id]; u != nil {
		s.step(u)
		return s.known[v.id]
	}
	if constant := s.constants[v.id]; constant != nil {
		return constantValue(constant.value)
	}
	if s.outer == nil {
		v.file.Fail(v.pos, "", "the input variable %q has no value here", v.id)
		return &value{expr: "nil"}
	}
	found := s.outer.lookup(v)
	if !found.constant.IsZero() {
		return found
	}
	s.imports[v.id] = found
	s.known[v.id] = &value{expr: "input.vars[" + literal(v.id) + "]", shape: found.shape, kind: found.kind}
	return s.known[v.id]
}

// contents gives what a variable holds where a path stands for the files behind it: a further step lists them.
func (s *scope) contents(v *variable) *value {
	found := s.lookup(v)
	if found.kind == plainValue {
		return found
	}
	if listed := s.listed[v.id]; listed != nil {
		return listed
	}
	list := `find -L "$DIR" -type f | LC_ALL=C sort`
	if found.kind == optionalFile {
		list = `if [ -e "$DIR" ]; then echo "$DIR"; fi`
	}
	step := &flow.Step{Name: s.names.Name(strings.Trim(v.id, "$") + ".files"), Needs: found.needs, Action: &flow.Exec{
		Shell: flow.V("{ echo 'files<<PAWL_END'; " + list + "; echo PAWL_END; } >> \"$PAWL_OUTPUT\""),
		Env:   flow.V(map[string]any{"DIR": found.template()}),
	}}
	s.doc.Steps = append(s.doc.Steps, step)
	out := &value{
		expr:  "filter(split(steps[" + literal(step.Name) + `].output.files, "\n"), # != "")`,
		shape: shapeMany, needs: []string{step.Name},
	}
	s.listed[v.id] = out
	return out
}
