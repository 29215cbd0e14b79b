package steep

import (
	"slices"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// loop is a for action.
type loop struct {
	a      *action
	outer  *loop      // the for action around it
	once   bool       // there is one iteration: its actions take the place of the for action
	from   *loop      // the loop whose items this one consumes; nil if it iterates a list
	step   *flow.Step // nil with once
	yields *value     // the collected value, as an iteration reads it
	whole  *value     // the collected value, as the loop's own iterations read it
}

// loopStep makes the loop of a for action, after what its list is made of. Steep unrolls a for action over the output
// of another one while that output arrives; so its items come from the other one's, one by one.
func (s *scope) loopStep(l *loop) string {
	if l.step != nil {
		return l.step.Name
	}
	if l.once {
		return ""
	}
	l.step = &flow.Step{Name: s.names.Name(l.a.label), Place: l.a.file.Place(l.a.in.Pos())}
	if l.a.label == l.a.id {
		l.a.file.Renamed(l.a.in.At("id").Pos(), l.a.id, l.step.Name)
	}
	around := s.around(l.a)
	list := s.inside(s.contentsOf(l.a.input), around)
	if l.from = s.follows(l); l.from != nil {
		around, list = l.from, s.oneYield(l.from)
	}
	if around != nil {
		l.step.Each = s.loopStep(around)
	}
	addNeeds(l.step, s.needs(list, nil)...)
	l.step.ForEach = listOf(list)
	for a := l; a != nil && (a == l || a.once); a = a.outer {
		s.waitFor(l.step, a.a)
	}
	l.step.Needs = without(l.step.Needs, l.step.Each)
	s.doc.Steps = append(s.doc.Steps, l.step)
	return l.step.Name
}

// follows returns the for action whose output a for action takes item by item. It returns nil if there is none, or if
// an action in it reads or waits for everything that the other one does.
func (s *scope) follows(l *loop) *loop {
	from := s.makes[l.a.input.id]
	if from == nil || from.once || from.a.yieldToOutput == nil || s.around(from.a) != s.around(l.a) ||
		!l.a.input.value.IsZero() {
		return nil
	}
	s.loopStep(from)
	for before := from; before != nil; before = before.from {
		if s.waitsForWhole(l.a, before.a, true) {
			return nil
		}
	}
	return from
}

// waitsForWhole reports whether an action, or one in it, reads the whole output of a for action or depends on it.
func (s *scope) waitsForWhole(a, whole *action, outermost bool) bool {
	reads := func(v *variable) bool {
		return v != nil && v.value.IsZero() && whole.output != nil && v.id == whole.output.id
	}
	if !outermost && reads(a.input) || slices.ContainsFunc(a.inputs, func(p *param) bool { return reads(p.v) }) {
		return true
	}
	for _, need := range a.dependsOn {
		if slices.Contains(s.targets.find(need.id), whole) {
			return true
		}
	}
	return slices.ContainsFunc(a.actions, func(inner *action) bool { return s.waitsForWhole(inner, whole, false) })
}

func without(list []string, gone string) []string {
	var out []string
	for _, text := range list {
		if text != gone {
			out = append(out, text)
		}
	}
	return out
}

func (s *scope) contentsOf(v *variable) *value {
	if !v.value.IsZero() {
		return constantValue(v.value)
	}
	return s.contents(v)
}

// item returns the value of an iteration's enumerator.
func (s *scope) item(l *loop) *value {
	list := s.contentsOf(l.a.input)
	if !l.once {
		s.loopStep(l)
		return &value{expr: "steps[" + literal(l.step.Name) + "].output", shape: itemShape(list)}
	}
	switch {
	case list.constant.IsList():
		return constantValue(flow.V(list.constant.Items()[0].Any()))
	case !list.constant.IsZero() || list.shape == shapeOne:
		return list
	default:
		return &value{expr: "flatten([" + list.expression() + "])[0]", shape: shapeAny, needs: s.needs(list, nil)}
	}
}

// oneYield returns the value that one iteration yields.
func (s *scope) oneYield(l *loop) *value {
	if l.yields != nil {
		return l.yields
	}
	l.yields = s.contents(l.a.yieldToOutput)
	if l.once || l.a.yieldToOutput.id == l.a.enumerator.id {
		return l.yields
	}
	// The yielded value is made in the iteration. A step keeps it, so that it can be read outside.
	made := l.yields
	step := &flow.Step{
		Name: s.names.Name(l.step.Name + ".yield"), Each: s.loopStep(l), Needs: s.needs(made, nil), Place: l.step.Place,
		Action: &flow.Noop{Output: made.template()},
	}
	s.doc.Steps = append(s.doc.Steps, step)
	l.yields = &value{
		expr: "steps[" + literal(step.Name) + "].output", shape: made.shape, needs: []string{step.Name},
	}
	return l.yields
}

// yields returns the value of a for action's output. It never has a value where there was no iteration, or nothing is
// yielded.
func (s *scope) yields(l *loop) *value {
	if l.a.yieldToOutput == nil {
		return s.noValue(l, nil)
	}
	one := s.contentsOf(l.a.input)
	if !l.once {
		s.loopStep(l)
		one = s.oneYield(l)
	}
	switch {
	case l.once:
		one = s.oneYield(l)
		return &value{expr: "flatten([" + one.expression() + "])", shape: shapeMany, needs: s.needs(one, nil)}
	case l.a.yieldToOutput.id == l.a.enumerator.id:
		return s.gathered(l, l.step.Name, nil)
	default:
		return s.gathered(l, one.needs[0], one.needs)
	}
}

// gathered lists a step's results of all iterations; lists in it are flattened, as Steep does.
func (s *scope) gathered(l *loop, step string, needs []string) *value {
	loop := "steps[" + literal(l.step.Name) + "].outputs"
	none := literal(l.a.file.Place(l.a.output.pos) + ": the variable \"" + l.a.output.id +
		"\" never gets a value: there was no iteration")
	return &value{
		expr:  "(len(" + loop + ") > 0 ? flatten(steps[" + literal(step) + "].outputs) : fail(" + none + "))",
		shape: shapeMany, needs: append([]string{l.step.Name}, needs...), of: l,
	}
}

// inside gives a value as the iterations of a for action, around, read it. If these are iterations of the action that
// yields the value, a step outside gathers it first: within an iteration only its own part is visible.
func (s *scope) inside(v *value, around *loop) *value {
	if v.of == nil {
		return v
	}
	in := around
	for in != nil && in != v.of {
		s.loopStep(in)
		if in.from != nil {
			in = in.from
		} else {
			in = s.around(in.a)
		}
	}
	if in == nil {
		return v
	}
	if v.of.whole == nil {
		step := &flow.Step{
			Name: s.names.Name(v.of.step.Name + ".all"), Needs: v.needs, Place: v.of.step.Place,
			Action: &flow.Noop{Output: v.template()},
		}
		if outer := s.around(v.of.a); outer != nil {
			step.Each = s.loopStep(outer)
		}
		s.doc.Steps = append(s.doc.Steps, step)
		v.of.whole = &value{
			expr: "steps[" + literal(step.Name) + "].output", shape: shapeMany, needs: []string{step.Name},
		}
	}
	return v.of.whole
}

func (s *scope) noValue(l *loop, needs []string) *value {
	return &value{
		expr: "fail(" + literal(l.a.file.Place(l.a.output.pos)+": the variable \""+l.a.output.id+
			"\" never gets a value: nothing is yielded to it") + ")",
		shape: shapeMany, needs: needs,
	}
}

// itemShape returns the shape of a list's items.
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
