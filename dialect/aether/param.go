package aether

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/tree"
)

// param is a parameter with a value, or with where its value is.
type param struct {
	name     string
	value    tree.Value
	from     string     // the name of a value
	expr     string     // the value as an expression
	fallback tree.Value // an input's default, where there is nothing
	required bool
	in       tree.Value
	pos      tree.Pos // the place of the value
}

// The places of parameters, as errors name them.
const (
	inInputs    = "inputs"
	inOutputs   = "outputs"
	inArguments = "arguments"
	inWorkflow  = "the workflow's arguments"
)

func (r *reader) params(v tree.Value, where string) []*param {
	var out []*param
	if !r.Object(v, where, "parameters", "artifacts") {
		return nil
	}
	r.refuse(v, "artifacts", "hand over the path of a file as a parameter")
	for _, item := range r.List(v.Get("parameters"), "parameters") {
		if !r.Object(item, "a parameter", "name", "type", "value", "valueFrom", "description", "required",
			"default", "enum") {
			continue
		}
		p := &param{
			name: r.name(item, "the parameter"), value: item.Get("value"), required: r.Bool(item, "required"),
			in: item, pos: item.Pos(),
		}
		r.Documents(item, "type", "description")
		r.Ignored(item, "values are not checked, as in Aether", "enum")
		if p.required && (!item.Get("value").IsZero() || !item.Get("default").IsZero() ||
			!item.Get("valueFrom").IsZero()) {
			r.Ignored(item, "the parameter has a value", "required")
		}
		r.source(p, item, where)
		if slices.ContainsFunc(out, func(o *param) bool { return o.name == p.name }) {
			r.Fail(item.Get("name").Pos(), "", "the parameter %q is given twice", p.name)
			continue
		}
		out = append(out, p)
	}
	return out
}

// source reads where a parameter has its value from: a value comes before a place, and a place before a default.
func (r *reader) source(p *param, item tree.Value, where string) {
	from, byDefault := item.Get("valueFrom"), item.Get("default")
	if r.Object(from, "valueFrom", "path", "parameter", "expression", "secretKeyRef") {
		r.refuse(from, "secretKeyRef", "let the handler's program read the secret where it is")
		if len(from.Fields()) == 0 {
			r.Fail(from.Pos(), "", "valueFrom names neither a parameter nor an expression")
		}
	}
	switch {
	case !p.value.IsZero():
		p.pos = p.value.Pos()
		r.Ignored(item, "the parameter has a value", "valueFrom", "default")
		return
	case where == inWorkflow:
		r.Ignored(item, "a workflow's argument has a value, or a default", "valueFrom")
		p.value = byDefault
		return
	case where == inInputs:
		p.fallback = byDefault
	default:
		r.Ignored(item, "an input has a default, and nothing else", "default")
	}
	switch {
	case !from.Get("path").IsZero():
		p.from, p.pos = r.Text(from, "path"), from.Get("path").Pos()
		r.Ignored(from, "path comes before it", "parameter", "expression")
	case !from.Get("parameter").IsZero():
		p.from, p.pos = r.Text(from, "parameter"), from.Get("parameter").Pos()
		r.Ignored(from, "parameter comes before it", "expression")
	case !from.Get("expression").IsZero():
		p.expr, p.pos = r.Text(from, "expression"), from.Get("expression").Pos()
	}
}

// given reports whether a parameter has a value, such as an empty text, or names the place of one.
func (p *param) given() bool { return p.from != "" || p.expr != "" || !p.value.IsZero() }

// given are expressions for the arguments of a template.
type given struct {
	own    map[string]string // the inputs' own values
	spread string            // a mapping that they replace parts of: an iteration's item
	args   map[string]string // the arguments that both replace parts of
}

// parameters gives what a template is called with: its inputs, each with the argument of that name, else with its own
// value. An input that has neither is absent; further arguments are handed on.
func (s *scope) parameters(inputs, arguments []*param, may ended, at tree.Pos, what string) given {
	g := given{own: map[string]string{}, spread: s.spread, args: maps.Clone(s.iterated)}
	if g.args == nil {
		g.args = map[string]string{}
	}
	fallback := map[string]tree.Value{}
	for _, p := range inputs {
		fallback[p.name] = p.fallback
		if p.given() {
			g.own[p.name] = s.param(p, p.fallback, may)
		} else if !p.fallback.IsZero() {
			g.own[p.name] = s.value(p.fallback.Any(), may, p.pos)
		}
	}
	for _, p := range arguments {
		if _, declared := fallback[p.name]; p.given() || !declared {
			g.args[p.name] = s.param(p, fallback[p.name], may)
		}
	}
	for _, p := range inputs {
		if _, known := g.get(p.name); p.required && !known {
			s.file.Fail(at, "add it to its arguments", "%s is not given the input %q", what, p.name)
		}
	}
	return g
}

// get gives the expression for a parameter, if it has one.
func (g *given) get(name string) (string, bool) {
	if expr, known := g.args[name]; known {
		return expr, true
	}
	own, known := g.own[name]
	if g.spread == "" {
		return own, known
	}
	expr := g.spread + "?.[" + form.Expr(name) + "]"
	if known {
		expr = "(" + expr + " ?? " + own + ")"
	}
	return expr, true
}

// object gives the expression for all of them.
func (g *given) object() string {
	if g.spread == "" {
		all := maps.Clone(g.own)
		maps.Copy(all, g.args)
		return form.Object(all)
	}
	expr := "toPairs(" + g.spread + ")"
	if len(g.own) > 0 {
		expr = "toPairs(" + form.Object(g.own) + "), " + expr
	}
	if len(g.args) > 0 {
		expr += ", toPairs(" + form.Object(g.args) + ")"
	}
	return "fromPairs(concat(" + expr + "))"
}

// param gives the expression for a parameter; where there is nothing, for its default.
func (s *scope) param(p *param, fallback tree.Value, may ended) string {
	var expr string
	switch {
	case p.from != "":
		expr = s.reference(p.from, "", may, p.pos)
	case p.expr != "":
		expr = "(" + s.expression(p.expr, "", may, p.pos) + ")"
	default:
		return s.value(p.value.Any(), may, p.pos)
	}
	if !fallback.IsZero() {
		expr = "(" + expr + " ?? " + s.value(fallback.Any(), may, p.pos) + ")"
	}
	return expr
}
