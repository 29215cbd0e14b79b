package flow

import (
	"fmt"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Child runs another flow. ParentClose specifies what happens to that run when this one closes first: cancel, which
// is the default, terminate or abandon. Spread: it may live in another partition than its parent, so that children
// use more than one processor core.
type Child struct {
	Name, Input tree.Value
	ParentClose string
	Spread      bool
	ordinary
}

var (
	flowKeys     = []string{"name", "input", "parentClose", "spread"}
	parentCloses = []string{"cancel", "terminate", "abandon"}
)

func (*Child) kind() string { return "flow" }

func (*Child) notTask() string { return "a child flow" }

func (c *Child) read(p *parsing, n *tree.Node) {
	if n.Kind == tree.Text {
		c.Name = tree.ValueOf(n)
	} else if p.object(n, "flow", flowKeys) {
		c.Name, c.Input = p.textValue(n.Get("name"), "name"), tree.ValueOf(n.Get("input"))
		if closing := n.Get("parentClose"); closing != nil {
			if c.ParentClose = closing.Text; closing.Kind != tree.Text || !contains(parentCloses, closing.Text) {
				p.Fail(closing.Pos, "", "parentClose is cancel, terminate or abandon, not %s", tree.Describe(closing))
			}
		}
		c.Spread = p.truth(n.Get("spread"), "spread")
	}
	name, _ := c.Name.Text()
	if name == "" && (n.Kind == tree.Mapping || n.Kind == tree.Text || n.Kind == tree.Null) {
		p.missing(n, flowKeys, "name the flow to run: name: audit", "the child flow has no name")
	}
}

func (c *Child) encode() tree.Value {
	out := object{}
	out.put("name", c.Name)
	if !c.Input.IsZero() {
		out.must("input", c.Input)
	}
	if c.ParentClose != "" {
		out.put("parentClose", V(c.ParentClose))
	}
	if c.Spread {
		out.put("spread", V(true))
	}
	return out.value()
}

func (c *Child) spec(spec *core.StepSpec) { spec.Kind, spec.Spread = core.KindChild, c.Spread }

func (c *Child) compile(b *builder, p *plan, _ *Step, vars expr.Vars) {
	o := b.compiler.Object(vars)
	o.Text("name", c.Name)
	o.Data("input", c.Input)
	if c.ParentClose != "" {
		o.Data("close", V(c.ParentClose))
	}
	p.payload = o.Done()
}

func (*Child) pointless(kind policy.LimitKind, _ bool) (severity Severity, code, why string) {
	if kind == policy.LimitHeartbeat || kind == policy.LimitInactivity {
		return Warning, lintNoSignOfLife,
			fmt.Sprintf("a child run gives no sign of life, so %s ends it in any case; use startToClose", kind)
	}
	return noEvent(kind)
}
