package flow

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
)

// bare refuses a duration that is a number without a unit, and reports whether it did. Documents of other systems count
// in milliseconds; whoever writes timeout: 10 in a flow means something else.
func (p *parsing) bare(n *tree.Node, what string) bool {
	if n == nil {
		return false
	}
	err := decode.Bare(n.Any())
	if err != nil {
		p.Fail(n.Pos, "", "%s: %s", what, err)
	}
	return err != nil
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
