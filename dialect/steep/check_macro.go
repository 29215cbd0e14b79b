package steep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// macro takes note of a macro's parameters.
func (c *checker) macro(m *macro) {
	for i, p := range m.params {
		if slices.ContainsFunc(m.params[:i], func(o *macroParam) bool { return o.id == p.id }) {
			m.file.Fail(p.pos, "", "macro %q already has a parameter %q", m.id, p.id)
		}
		for _, v := range m.vars {
			if v.id == p.id {
				m.file.Fail(v.pos, "leave it out of vars", "the variable %q is a parameter of the macro already", v.id)
			}
		}
		if !p.output {
			c.inputs[p.id] = true
		}
	}
}

// inMacro checks how a macro's action uses the macro's parameters.
func (c *checker) inMacro(m *macro, a *action) {
	find := func(v *variable, output bool) bool {
		return v != nil && v.value.IsZero() && slices.ContainsFunc(m.params,
			func(p *macroParam) bool { return p.id == v.id && p.output == output })
	}
	for _, o := range a.outputs {
		if find(o.v, false) {
			a.file.Fail(o.v.pos, "", "the macro's input parameter %q is used as an output", o.v.id)
		}
	}
	if find(a.output, false) {
		a.file.Fail(a.output.pos, "", "the macro's input parameter %q is used as an output", a.output.id)
	}
	for _, p := range a.inputs {
		if find(p.v, true) {
			a.file.Fail(p.v.pos, "", "the macro's output parameter %q is used as an input", p.v.id)
		}
	}
	if find(a.input, true) {
		a.file.Fail(a.input.pos, "", "the macro's output parameter %q is used as an input", a.input.id)
	}
	if find(a.enumerator, true) || find(a.enumerator, false) {
		a.file.Fail(a.enumerator.pos, "", "the macro's parameter %q is used as an enumerator", a.enumerator.id)
	}
}

// include checks an include action against its macro.
func (c *checker) include(a *action) {
	m := c.macros[a.macro]
	if m == nil {
		known := map[string]bool{}
		for id := range c.macros {
			known[id] = true
		}
		hint := nearestOf(a.macro, known)
		if len(known) == 0 {
			hint = "name the file of macros"
		}
		if a.macro != "" {
			a.file.Fail(a.in.Get("macro").Pos(), hint, "there is no macro %q", a.macro)
		}
		return
	}
	given := map[string]bool{}
	for _, list := range []struct {
		params []*param
		output bool
		what   string
	}{{a.inputs, false, "input"}, {a.outputs, true, "output"}} {
		for _, p := range list.params {
			if given[p.id] {
				a.file.Fail(p.v.pos, "", "the parameter %q is given twice", p.id)
			}
			given[p.id] = true
			if !slices.ContainsFunc(m.params,
				func(o *macroParam) bool { return o.id == p.id && o.output == list.output }) {
				a.file.Fail(p.v.pos, "", "macro %q has no %s %q", m.id, list.what, p.id)
			}
		}
	}
	for _, p := range m.params {
		if !given[p.id] && (p.output || p.value.IsZero()) {
			what := "input"
			if p.output {
				what = "output"
			}
			a.file.Fail(a.in.Pos(), "", "macro %q needs the %s %q", m.id, what, p.id)
		}
	}
}

// includeCircle finds macros that include each other; true: there are some, and nothing can be expanded.
func includeCircle(macros map[string]*macro) bool {
	ids := make([]string, 0, len(macros))
	for id := range macros {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	state, found := map[string]int{}, false
	var path []string
	var visit func(id string)
	visit = func(id string) {
		state[id] = 1
		path = append(path, id)
		walk(macros[id].actions, func(a *action) {
			if a.kind != kindInclude || macros[a.macro] == nil || found {
				return
			}
			switch state[a.macro] {
			case 1:
				found = true
				circle := append(path[slices.Index(path, a.macro):], a.macro)
				a.file.Fail(a.in.Get("macro").Pos(), "", "the macros include each other in a circle: %s",
					strings.Join(circle, " → "))
			case 0:
				visit(a.macro)
			}
		})
		path = path[:len(path)-1]
		state[id] = 2
	}
	for _, id := range ids {
		if state[id] == 0 && !found {
			visit(id)
		}
	}
	return found
}

func (s *service) param(id string, output bool) *serviceParam {
	for _, p := range s.params {
		if p.id == id && p.output == output {
			return p
		}
	}
	return nil
}

func (s *service) nearest(id string, output bool) string {
	var known []string
	for _, p := range s.params {
		if p.output == output {
			known = append(known, p.id)
		}
	}
	return nearest.Hint(id, known)
}

func (p *serviceParam) bounds() string {
	if p.high == unbounded {
		return fmt.Sprintf("%d..n", p.low)
	}
	return fmt.Sprintf("%d..%d", p.low, p.high)
}

// flat lists the texts of a constant, however deep its lists.
func flat(v tree.Value) []any {
	if !v.IsList() {
		return []any{v.Any()}
	}
	var out []any
	for _, item := range v.Items() {
		out = append(out, flat(item)...)
	}
	return out
}
