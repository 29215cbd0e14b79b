package flow

import (
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
)

// bare refuses a duration that is a number without a unit, and reports whether it did. Documents of other systems count
// in milliseconds; whoever writes timeout: 10 in a flow means something else. It refuses expressions as well.
func (p *parsing) bare(n *tree.Node, what string) bool {
	if n == nil || p.expression(n, what) {
		return n != nil
	}
	err := decode.Bare(n.Any())
	if err != nil {
		p.Fail(n.Pos, "", "%s: %s", what, err)
	}
	return err != nil
}

// expression refuses an expression where only a plain value may stand, and reports whether it did. Of a policy only the
// limits may be expressions.
func (p *parsing) expression(n *tree.Node, what string) bool {
	found := n != nil && n.Kind == tree.Text && expr.HasExpression(n.Text)
	if found {
		p.Fail(n.Pos, "", "%s: an expression cannot stand here; write the value", what)
	}
	return found
}

// bareField does so for fields of a mapping, and for a retry policy that is a text.
func (p *parsing) bareField(n *tree.Node, names ...string) bool {
	found := false
	if n == nil {
		return false
	}
	for _, name := range names {
		found = p.bare(n.Get(name), name) || found
	}
	return found
}

func (p *parsing) barePreset(n *tree.Node) bool {
	if n.Kind != tree.Text {
		return false
	}
	if p.expression(n, "retry") {
		return true
	}
	err := decode.BarePreset(n.Text)
	if err != nil {
		p.Fail(n.Pos, "", "retry: %s", err)
	}
	return err != nil
}

// bareRate does so for the length of time of a rate such as 10/1s.
func (p *parsing) bareRate(n *tree.Node, names ...string) {
	for _, name := range names {
		rate := n.Get(name)
		if rate == nil || rate.Kind != tree.Text {
			continue
		}
		_, per, _ := strings.Cut(rate.Text, "/")
		if err := decode.Bare(per); err != nil {
			p.Fail(rate.Pos, "", "%s: %s", name, err)
		}
	}
}
