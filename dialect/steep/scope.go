package steep

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
)

// scope is the flow in the making.
type scope struct {
	*converter
	doc    *flow.Document
	names  form.Namer
	units  []*unit
	unitOf map[*action]*unit
	owners map[*flow.Step]*unit
	makers map[string]*unit  // the unit that makes a variable
	makes  map[string]*loop  // the for action whose output a variable is
	loopOf map[*action]*loop // the loops of the for actions
	in     map[*action]*loop // the for action around an action, nil: none
	enums  map[string]*loop  // the loop of an enumerator
	known  map[string]*value
	listed map[string]*value // the files of directories
	chain  map[*action]int   // the process chain of an action, from 1
	lists  map[int][]*action // the actions of a process chain
}

// unit becomes one step: it is an action, or a chain of actions.
type unit struct {
	actions []*action
	step    *flow.Step
	loop    *loop // the loop around it; nil if there is none
	chain   bool
}

// scope prepares the flow for a list of actions.
func (c *converter) scope(name string, actions []*action) *scope {
	s := &scope{
		converter: c, doc: &flow.Document{File: c.file.Name(), Name: name},
		unitOf: map[*action]*unit{}, owners: map[*flow.Step]*unit{},
		makers: map[string]*unit{}, makes: map[string]*loop{}, loopOf: map[*action]*loop{},
		in: map[*action]*loop{}, enums: map[string]*loop{},
		known: map[string]*value{}, listed: map[string]*value{},
		chain: map[*action]int{}, lists: map[int][]*action{},
	}
	s.doc.Defaults.Priority = c.w.priority
	g := newGenerator(c.constants, c.targets, s.stops, s.dynamic)
	g.run(actions)
	s.index(actions, nil, g)
	s.link(g, actions)
	return s
}

// dynamic returns the value that an output is assumed to hold: one file, or several.
func (s *scope) dynamic(o *param, a *action) any {
	p := s.services[a.service].param(o.id, true)
	if p != nil && (p.dataType == typeDirectory || p.dataType == typeFileOrEmptyList) {
		return []any{"", ""}
	}
	return ""
}

// stops reports whether a chain ends with an action because its outputs have to be read from the disk first.
func (s *scope) stops(a *action) bool {
	svc := s.services[a.service]
	return slices.ContainsFunc(a.outputs, func(o *param) bool {
		p := svc.param(o.id, true)
		return p != nil && p.dataType == typeFileOrEmptyList
	})
}

// index finds who makes what, and which for action is around what. A for action that is known to have one iteration
// needs no loop: its actions take its place.
func (s *scope) index(actions []*action, outer *loop, g *generator) {
	for _, a := range actions {
		s.in[a] = outer
		if a.kind != kindFor {
			continue
		}
		l := &loop{a: a, outer: outer, once: g.once(a)}
		s.loopOf[a], s.enums[a.enumerator.id] = l, l
		if a.output != nil {
			s.makes[a.output.id] = l
		}
		s.index(a.actions, l, g)
	}
}

// once reports whether there is one iteration of a for action wherever it is unrolled.
func (g *generator) once(a *action) bool {
	counts := g.counts[a]
	return len(counts) > 0 && a.yieldToInput == nil &&
		!slices.ContainsFunc(counts, func(n int) bool { return n != 1 })
}

// link makes a unit of each action, or of each process chain where chains are retried.
func (s *scope) link(g *generator, actions []*action) {
	var units [][]*action
	for i, chain := range g.chains {
		var list []*action
		for _, n := range chain {
			if _, known := s.chain[n.a]; known || len(list) > 0 && s.around(n.a) != s.around(list[0]) {
				break
			}
			s.chain[n.a] = i + 1
			list = append(list, n.a)
		}
		if len(list) > 0 {
			units, s.lists[i+1] = append(units, list), list
		}
	}
	add := func(list []*action, chain bool) {
		u := &unit{actions: list, loop: s.around(list[0]), chain: chain}
		s.units = append(s.units, u)
		for _, a := range list {
			s.unitOf[a] = u
			for _, o := range a.outputs {
				s.makers[o.v.id] = u
			}
		}
	}
	if s.chains != nil {
		for _, list := range units {
			add(list, true)
		}
	}
	walk(actions, func(a *action) {
		if a.kind == kindExecute && s.unitOf[a] == nil {
			add([]*action{a}, s.chains != nil)
		}
	})
	s.remember(units)
}

// remember keeps which steps are one process chain.
func (s *scope) remember(units [][]*action) {
	if s.chains == nil {
		s.linked = units
	}
}

// around returns the innermost for action around an action whose iterations are items of a loop, or nil if there is
// none.
func (s *scope) around(a *action) *loop {
	l := s.in[a]
	for l != nil && l.once {
		l = l.outer
	}
	return l
}

func (s *scope) sameChain(u *unit, v *variable) bool {
	maker := s.makers[v.id]
	return maker != nil && v.value.IsZero() && s.oneChain(u, maker)
}

// needs lists the steps that must have ended before a unit reads a value. The outputs of a process chain exist when the
// whole chain has ended; a reader in the same chain waits only for the action that it reads from.
func (s *scope) needs(v *value, u *unit) []string {
	switch {
	case v.maker == nil:
		return v.needs
	case u != nil && s.oneChain(u, v.maker):
		return []string{v.maker.step.Name}
	default:
		return []string{s.step(s.last(v.maker))}
	}
}

// oneChain reports whether two units are of one process chain.
func (s *scope) oneChain(u, other *unit) bool {
	if u.chain {
		return u == other
	}
	of := func(u *unit) int { return s.chain[u.actions[0]] }
	return of(u) > 0 && of(u) == of(other)
}

// last returns the last unit of a unit's process chain.
func (s *scope) last(u *unit) *unit {
	if list := s.lists[s.chain[u.actions[0]]]; !u.chain && len(list) > 0 {
		return s.unitOf[list[len(list)-1]]
	}
	return u
}

// makes lists the variables that an action makes in its scope.
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

// all makes the steps.
func (s *scope) all(actions []*action) {
	walk(actions, func(a *action) {
		if a.kind == kindFor {
			s.loopStep(s.loopOf[a])
		} else {
			s.step(s.unitOf[a])
		}
	})
	walk(actions, func(a *action) {
		if l := s.loopOf[a]; l != nil && a.yieldToInput != nil {
			l.step.More = flow.V("${{ flatten([" + s.contents(a.yieldToInput).expression() + "]) }}")
		}
	})
	chains := map[string]string{}
	for _, list := range s.linked {
		for _, a := range list {
			if len(list) > 1 {
				chains[s.unitOf[a].step.Name] = s.unitOf[list[0]].step.Name
			}
		}
	}
	if len(chains) > 0 {
		s.chained[s.doc.Name] = chains
	}
	if len(s.doc.Steps) == 0 {
		s.doc.Steps = []*flow.Step{{Name: "nothing", Action: &flow.Noop{}}}
	}
}

// step makes a unit's step, after those it needs.
func (s *scope) step(u *unit) string {
	if u.step != nil {
		return u.step.Name
	}
	a := u.actions[0]
	u.step = s.newStep(a, u.loop)
	s.owners[u.step] = u
	for _, b := range u.actions {
		name := u.step.Name
		if b != a {
			name = s.names.Name(b.label)
		}
		s.outputs(u, b, name)
	}
	if u.chain {
		s.chainStep(u)
	} else {
		s.execStep(u, u.step, a, func(_ string, v *value) *value { return v })
	}
	for _, b := range u.actions {
		for l := s.in[b]; l != nil && l.once; l = l.outer {
			s.waitFor(u.step, l.a)
		}
		s.waitFor(u.step, b)
	}
	s.doc.Steps = append(s.doc.Steps, u.step)
	return u.step.Name
}

// newStep begins the step of an action, in the loop around it.
func (s *scope) newStep(a *action, around *loop) *flow.Step {
	each := ""
	if around != nil {
		each = s.loopStep(around)
	}
	step := &flow.Step{Name: s.names.Name(a.label), Place: a.file.Place(a.in.Pos()), Each: each}
	if a.label == a.id {
		a.file.Renamed(a.in.At("id").Pos(), a.id, step.Name)
	}
	return step
}

// waitFor adds what dependsOn asks for. A for action has ended when all actions in it have.
func (s *scope) waitFor(step *flow.Step, a *action) {
	for _, need := range a.dependsOn {
		for _, target := range s.targets.find(need.id) {
			s.waitForAll(step, target)
		}
	}
}

func (s *scope) waitForAll(step *flow.Step, target *action) {
	if target.kind != kindFor {
		s.waitForOne(step, s.unitOf[target])
		return
	}
	if l := s.loopOf[target]; !l.once {
		addNeeds(step, s.loopStep(l)) // which waits for what the for action depends on
	} else {
		s.waitFor(step, target)
	}
	for _, a := range target.actions {
		s.waitForAll(step, a)
	}
}

// waitForOne waits for an action: for the end of its process chain, unless the step is part of the same chain.
func (s *scope) waitForOne(step *flow.Step, u *unit) {
	if own := s.owners[step]; own != nil && s.oneChain(own, u) {
		addNeeds(step, s.step(u))
		return
	}
	addNeeds(step, s.step(s.last(u)))
}

func (u *unit) needs(steps ...string) { addNeeds(u.step, steps...) }

func addNeeds(step *flow.Step, needs ...string) {
	for _, name := range needs {
		if name != step.Name && !slices.Contains(step.Needs, name) {
			step.Needs = append(step.Needs, name)
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
	switch l := s.makes[v.id]; {
	case l != nil:
		s.known[v.id] = s.yields(l)
	case s.enums[v.id] != nil:
		s.known[v.id] = s.item(s.enums[v.id])
	case s.constants[v.id] != nil:
		return constantValue(s.constants[v.id].value)
	default:
		v.file.Fail(v.pos, "", "the input variable %q has no value here", v.id)
		return &value{expr: "nil"}
	}
	return s.known[v.id]
}

// contents gives the value of a variable whose path names files: a further step lists them.
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
	maker := s.makers[v.id]
	step := &flow.Step{
		Name: s.names.Name(strings.Trim(v.id, "$") + ".files"), Needs: s.needs(found, nil), Place: v.file.Place(v.pos),
		Action: &flow.Exec{
			Shell: flow.V("{ echo 'files<<PAWL_END'; " + list + "; echo PAWL_END; } >> \"$PAWL_OUTPUT\""),
			Env:   flow.V(map[string]any{"DIR": found.template()}),
		},
	}
	if maker != nil && maker.loop != nil {
		step.Each = s.loopStep(maker.loop)
	}
	s.doc.Steps = append(s.doc.Steps, step)
	out := &value{
		expr:  "filter(split(steps[" + literal(step.Name) + `].output.files, "\n"), # != "")`,
		shape: shapeMany, needs: []string{step.Name},
	}
	s.listed[v.id] = out
	return out
}
