package aether

import (
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// outputs holds the values that expressions may take from a task that has ended.
type outputs struct {
	base     string            // an expression for the output parameters
	all      string            // only for a loop: an expression for the list of its iterations' outputs
	strategy string            // only for a loop: the iterations that count
	declared []string          // the parameters that there may be; nil: any
	values   map[string]string // expressions for the outputs that an executor may omit
}

// get gives the expression for a parameter.
func (o *outputs) get(name string) string {
	one := func(of string) string {
		expr := of + "?.[" + form.Expr(name) + "]"
		if value, known := o.values[name]; known {
			expr = "(" + expr + " ?? " + value + ")"
		}
		return expr
	}
	if o.all == "" {
		return one(o.base)
	}
	list := "map(" + o.all + ` ?? [], ` + one("#") + ")"
	switch o.strategy {
	case "list":
		return list
	case "first":
		return "first(" + list + ")"
	default:
		return "last(" + list + ")"
	}
}

// whole gives all parameters of a loop.
func (o *outputs) whole() tree.Value {
	if o.declared != nil {
		each := map[string]any{}
		for _, name := range o.declared {
			each[name] = "${{ " + o.get(name) + " }}"
		}
		return flow.V(each)
	}
	all := o.all + " ?? []"
	switch o.strategy {
	case "list":
		// each name that some iteration returned, with the values of all iterations
		return flow.V("${{ (let lists = map(" + all + ", # ?? {}); " +
			"fromPairs(map(uniq(flatten(map(lists, keys(#)))), (let name = #; [name, map(lists, #?.[name])])))) }}")
	case "first":
		return flow.V("${{ first(" + all + ") }}")
	default:
		return flow.V("${{ last(" + all + ") }}")
	}
}

// outputOf gives the expression for a step's output, nil if it has none.
func outputOf(step string) string { return "steps[" + form.Expr(step) + "].output" }

// declare reads the parameters that a task declares: others of its executor are not handed on, and one that its
// executor omits has the written value.
func (s *scope) declare(o *outputs, kind string, v tree.Value) *outputs {
	list := (&reader{s.file}).params(v.Get("outputs"), inOutputs)
	if len(list) == 0 {
		return o
	}
	if kind != "dag" {
		s.file.Documents(v, "outputs") // the name of the only output
	}
	o.declared, o.values = []string{}, map[string]string{}
	for _, p := range list {
		o.declared = append(o.declared, p.name)
		if !p.value.IsZero() {
			o.values[p.name] = form.Expr(p.value.Any())
		}
		if kind != "dag" {
			s.file.Ignored(p.in, "a task's outputs are what its executor returns", "valueFrom")
		}
	}
	return o
}
