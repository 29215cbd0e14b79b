package flow

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// policy reads retry and timeout of a step, a service or the defaults. A timeout that is only an amount is the step's
// scheduleToClose; that of a wait is the wait's own limit, which no event can outlast.
func (p *parsing) policy(n *tree.Node, wait bool) policy.Policy {
	out := policy.Policy{Retry: p.retry(n.Get("retry"))}
	t := n.Get("timeout")
	if t == nil || t.Kind == tree.Null {
		return out
	}
	alone := policy.LimitScheduleToClose
	if wait {
		alone = policy.LimitWait
	}
	if t.Kind != tree.Mapping {
		out.Set(alone, p.limit(alone, t))
		return out
	}
	if t.Get("after") != nil || t.Get("at") != nil {
		p.Fail(t.Pos, "write timeout: {"+alone.String()+": {after: …}}", "after belongs to one limit")
		return out
	}
	names := make([]string, len(policy.StepLimits))
	for i, kind := range policy.StepLimits {
		names[i] = kind.String()
	}
	p.object(t, "timeout", names)
	for _, kind := range policy.StepLimits {
		if limit := t.Get(kind.String()); limit != nil {
			out.Set(kind, p.limit(kind, limit))
		}
	}
	return out
}

// limit reads one limit and notes its place, so that a run can show where its binding limit was set.
func (p *parsing) limit(kind policy.LimitKind, n *tree.Node) *policy.Limit {
	if n.Kind == tree.Mapping {
		known := limitKeys
		if kind == policy.LimitDeadline {
			known = deadlineKeys
		}
		before := len(p.Errors)
		if p.object(n, kind.String(), known); len(p.Errors) > before {
			return nil
		}
	}
	if limit, computed := p.computed(kind, n); computed {
		return limit
	}
	if p.bare(n, kind.String()) || p.bareField(n, "after") {
		return nil
	}
	limit, err := kind.DecodeLimit(n.Any())
	if err != nil {
		p.field(n, kind.String(), err)
		return nil
	}
	if limit != nil {
		limit.Origin = p.Source.Place(n.Pos)
	}
	return limit
}

// computed reads a limit whose amount is an expression. It returns false if the amount is not one.
func (p *parsing) computed(kind policy.LimitKind, n *tree.Node) (limit *policy.Limit, computed bool) {
	amount := n
	if n.Kind == tree.Mapping {
		if amount = n.Get("after"); amount == nil {
			amount = n.Get("at")
		}
	}
	if amount == nil || amount.Kind != tree.Text || !expr.HasExpression(amount.Text) {
		return nil, false
	}
	rest := map[string]any{"after": "1s"} // represents the amount while the other fields are read
	for _, f := range n.Fields {
		if f.Name != "after" && f.Name != "at" {
			rest[f.Name] = f.Value.Any()
		}
	}
	limit, err := kind.DecodeLimit(rest)
	if err != nil {
		p.field(n, kind.String(), err)
		return nil, true
	}
	limit.After, limit.Expr, limit.Origin = 0, amount.Text, p.Source.Place(n.Pos)
	if p.amounts == nil {
		p.amounts = map[*policy.Limit]*tree.Node{}
	}
	p.amounts[limit] = amount
	return limit, true
}

// field reports an error of package policy at the field it is about.
func (p *parsing) field(n *tree.Node, what string, err error) {
	var f *decode.Error
	if !errors.As(err, &f) {
		p.Fail(n.Pos, "", "%s: %s", what, err)
		return
	}
	if f.Key {
		last := len(f.Path) - 1
		p.Fail(n.At(f.Path[:last]).Key(f.Path[last]), "", "%s: %s", what, f.Msg)
		return
	}
	if len(f.Path) > 0 {
		what = f.Path[len(f.Path)-1]
		if len(f.Path) > 1 && isIndex(what) {
			what = f.Path[len(f.Path)-2]
		}
	}
	p.Fail(n.At(f.Path).Pos, "", "%s: %s", what, f.Msg)
}

func isIndex(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }

// plainRetryKeys are the fields of a retry policy that are neither amounts of time nor conditions.
var plainRetryKeys = []string{"maxAttempts", "backoffCoefficient", "jitter", "maxLost"}

func (p *parsing) retry(n *tree.Node) *policy.Retry {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	if n.Kind == tree.Mapping {
		before := len(p.Errors)
		if p.object(n, "retry", retryKeys); len(p.Errors) > before {
			return nil
		}
	}
	if p.barePreset(n) || p.bareField(n, "initialInterval", "maxInterval") {
		return nil
	}
	for _, key := range plainRetryKeys {
		if p.expression(n.Get(key), key) {
			return nil
		}
	}
	r, err := policy.DecodeRetry(n.Any())
	if err != nil {
		p.field(n, "retry", err)
		return nil
	}
	if r == nil {
		return nil
	}
	r.Origin = p.Source.Place(n.Pos)
	if when := n.Get("when"); when != nil {
		if p.whens == nil {
			p.whens = map[*policy.Retry]*tree.Node{}
		}
		p.whens[r] = when
	}
	return r
}

// runLimits reads the timeout of a flow: an amount for the run, or its limits by name.
func (p *parsing) runLimits(n *tree.Node) RunLimits {
	var out RunLimits
	if n == nil || n.Kind == tree.Null {
		return out
	}
	if n.Kind != tree.Mapping {
		out.Run = p.limit(policy.LimitRun, n)
		return out
	}
	p.object(n, "a flow's timeout", runLimitKeys)
	if v := n.Get("execution"); v != nil {
		out.Execution = p.limit(policy.LimitExecution, v)
	}
	if v := n.Get("run"); v != nil {
		out.Run = p.limit(policy.LimitRun, v)
	}
	if v := n.Get("deadline"); v != nil {
		out.Deadline = p.limit(policy.LimitDeadline, v)
		if out.Deadline != nil && out.Deadline.At == 0 && out.Deadline.Expr == "" {
			p.Fail(v.Pos, "for an amount of time use run or execution",
				"the deadline of a flow is an instant such as 2030-01-31T18:00:00Z")
		}
	}
	return out
}

// duration reads an amount of time that may be zero.
func (p *parsing) duration(n *tree.Node, what string) *time.Duration {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	if p.bare(n, what) {
		return nil
	}
	d, err := decode.Duration(n.Any())
	if err != nil {
		p.field(n, what, err)
		return nil
	}
	return &d
}
