package steep

import (
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// loop is a for action.
type loop struct {
	a      *action
	outer  *loop      // the for action around it
	once   bool       // there is one iteration: its actions stand where it stands
	step   *flow.Step // nil with once
	yields *value     // what is collected, as an iteration has it
	list   *value     // with once: what its item is made of
}

// loopStep makes the loop of a for action, after what its list is made of. Steep unrolls a for action over the output
// of another one as that comes in; so its items come of the other one's, one by one.
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
	list := s.contentsOf(l.a.input)
	if from := s.makes[l.a.input.id]; from != nil && !from.once && from.a.yieldToOutput != nil &&
		s.around(from.a) == around && l.a.input.value.IsZero() {
		around, list = from, s.oneYield(from)
	}
	if around != nil {
		l.step.Each = s.loopStep(around)
	}
	addNeeds(l.step, list.needs...)
	l.step.ForEach = listOf(list)
	for a := l; a != nil && (a == l || a.once); a = a.outer {
		s.waitFor(l.step, a.a)
	}
	l.step.Needs = without(l.step.Needs, l.step.Each)
	s.doc.Steps = append(s.doc.Steps, l.step)
	return l.step.Name
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

// item is what an iteration has as its enumerator.
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
		return &value{expr: "flatten([" + list.expression() + "])[0]", shape: shapeAny, needs: list.needs}
	}
}

// oneYield is what one iteration yields.
func (s *scope) oneYield(l *loop) *value {
	if l.yields != nil {
		return l.yields
	}
	l.yields = s.contents(l.a.yieldToOutput)
	if l.once || l.a.yieldToOutput.id == l.a.enumerator.id {
		return l.yields
	}
	// What is yielded is made in the iteration, and read outside by a step that keeps it.
	made := l.yields
	step := &flow.Step{
		Name: s.names.Name(l.step.Name + ".yield"), Each: s.loopStep(l), Needs: made.needs, Place: l.step.Place,
		Action: &flow.Noop{Output: made.template()},
	}
	s.doc.Steps = append(s.doc.Steps, step)
	l.yields = &value{
		expr: "steps[" + literal(step.Name) + "].output", shape: made.shape, needs: []string{step.Name},
	}
	return l.yields
}

// yields is what a for action's output holds. It never has a value where there was no iteration, or nothing is
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
		return &value{expr: "flatten([" + one.expression() + "])", shape: shapeMany, needs: one.needs}
	case l.a.yieldToOutput.id == l.a.enumerator.id:
		return s.gathered(l, l.step.Name, nil)
	default:
		return s.gathered(l, one.needs[0], one.needs)
	}
}

// gathered lists what a step has for each iteration; lists in it are flattened, as Steep does.
func (s *scope) gathered(l *loop, step string, needs []string) *value {
	loop := "steps[" + literal(l.step.Name) + "].outputs"
	none := literal(l.a.file.Place(l.a.output.pos) + ": the variable \"" + l.a.output.id +
		"\" never gets a value: there was no iteration")
	return &value{
		expr:  "(len(" + loop + ") > 0 ? flatten(steps[" + literal(step) + "].outputs) : fail(" + none + "))",
		shape: shapeMany, needs: append([]string{l.step.Name}, needs...),
	}
}

func (s *scope) noValue(l *loop, needs []string) *value {
	return &value{
		expr: "fail(" + literal(l.a.file.Place(l.a.output.pos)+": the variable \""+l.a.output.id+
			"\" never gets a value: nothing is yielded to it") + ")",
		shape: shapeMany, needs: needs,
	}
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
