package flow

import (
	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
)

// Noop does nothing and returns its output.
type Noop struct {
	Output tree.Value
	ordinary
}

var noopKeys = []string{"output"}

func (*Noop) kind() string { return "noop" }

func (a *Noop) read(p *parsing, n *tree.Node) {
	if p.object(n, "noop", noopKeys) {
		a.Output = tree.ValueOf(n.Get("output"))
	}
}

func (a *Noop) encode() tree.Value {
	out := object{}
	if !a.Output.IsZero() {
		out.must("output", a.Output)
	}
	return out.value()
}

func (*Noop) spec(spec *core.StepSpec) { spec.Type = "noop" }

func (a *Noop) compile(b *builder, p *plan, _ *Step, vars expr.Vars) {
	if a.Output.IsZero() {
		p.payload = b.compiler.Template(&tree.Node{}, vars, false)
		return
	}
	o := b.compiler.Object(vars)
	o.Data("output", a.Output)
	p.payload = o.Done()
}
