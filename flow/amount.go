package flow

import (
	"errors"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// amount is a limit that an expression gives: timeout: "${{ input.patience }}". It is worked out once, when the step
// begins, so that all attempts have the same limits, also after a crash.
type amount struct {
	kind  policy.LimitKind
	limit *policy.Limit // as it is written
	value *expr.Template
}

// amounts compiles those limits of a step that are expressions, and removes them from its spec.
func (b *builder) amounts(p *plan, vars expr.Vars) {
	for _, kind := range policy.StepLimits {
		if l := p.spec.Policy.Get(kind); l != nil && l.Expr != "" {
			p.amounts = append(p.amounts, b.amount(kind, l, vars&(varsFlow|varsItem)))
			p.spec.Policy.Set(kind, nil)
		}
	}
}

// runAmounts compiles the limits of a run that expressions give. They can use its input only.
func (b *builder) runAmounts() {
	l := &b.doc.Limits
	for kind, limit := range map[policy.LimitKind]*policy.Limit{
		policy.LimitRun: l.Run, policy.LimitExecution: l.Execution, policy.LimitDeadline: l.Deadline,
	} {
		if limit != nil && limit.Expr != "" {
			b.def.amounts = append(b.def.amounts, b.amount(kind, limit, expr.VarInput))
		}
	}
}

func (b *builder) amount(kind policy.LimitKind, l *policy.Limit, vars expr.Vars) amount {
	n := b.doc.amounts[l]
	if n == nil { // the document was built in code
		n = &tree.Node{Kind: tree.Text, Text: l.Expr}
	}
	return amount{kind, l, b.compiler.Template(n, vars, false)}
}

// in evaluates the limit, and returns nil if the limit is to be absent.
func (a *amount) in(s *scope) (*policy.Limit, *policy.Failure) {
	wrong := func(err error) *policy.Failure { return broken("timeout", a.limit.Origin, err) }
	v, err := a.value.Eval(s)
	if err != nil {
		return nil, wrong(err)
	}
	if v == nil {
		return nil, wrong(a.value.Wrong("%s is null; write none for no limit", a.kind))
	}
	if err := decode.Bare(v); err != nil {
		return nil, wrong(a.value.Wrong("%s: %s", a.kind, err))
	}
	if _, object := v.(map[string]any); object {
		return nil, wrong(a.value.Wrong("%s: an amount such as 5m is expected, not %s", a.kind, expr.TypeName(v)))
	}
	l, err := a.kind.DecodeLimit(v)
	if err != nil {
		return nil, wrong(a.value.Wrong("%s: %s", a.kind, err))
	}
	if l == nil || l.Removed {
		return nil, nil
	}
	l.Retry, l.OnExpire, l.Origin = a.limit.Retry, a.limit.OnExpire, a.limit.Origin
	if l.At == 0 {
		l.Warn = a.limit.Warn
	}
	return l, nil
}

// policyIn returns a step's policy with the limits that the run gives, or nil if it has none of these.
func (p *plan) policyIn(s *scope) (*policy.Policy, *policy.Failure) {
	if len(p.amounts) == 0 {
		return nil, nil
	}
	out := p.spec.Policy
	for i := range p.amounts {
		l, failure := p.amounts[i].in(s)
		if failure != nil {
			return nil, failure
		}
		out.Set(p.amounts[i].kind, l)
	}
	return &out, nil
}

// limitsIn returns the limits of a run with that input.
func (d *definition) limitsIn(input []byte) (RunLimits, error) {
	out := d.doc.Limits
	if len(d.amounts) == 0 {
		return out, nil
	}
	s := &scope{decider: newDecider(d), run: &core.Run{Input: input}}
	for i := range d.amounts {
		a := &d.amounts[i]
		l, failure := a.in(s)
		if failure != nil {
			return out, errors.New(failure.Message)
		}
		switch a.kind {
		case policy.LimitRun:
			out.Run = l
		case policy.LimitExecution:
			out.Execution = l
		default:
			out.Deadline = l
		}
	}
	return out, nil
}

// bare refuses a duration that is a number without a unit, and reports whether it did. Documents of other systems count
// in milliseconds; a bare number such as timeout: 10 in a flow would be ambiguous. It refuses expressions as well.
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

// expression refuses an expression where only a plain value is allowed, and reports whether it did. Of a policy only
// the limits may be expressions.
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

// bareRate does the same for the length of time of a rate such as 10/1s.
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
