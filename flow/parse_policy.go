package flow

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// policy reads retry and timeout of a step, a service or the defaults. A timeout that is an amount alone is the
// step's scheduleToClose; of a wait it is the wait's own limit, which an event cannot outlast either.
func (p *parsing) policy(n *node, wait bool) policy.Policy {
	out := policy.Policy{Retry: p.retry(n.get("retry"))}
	t := n.get("timeout")
	if t == nil || t.kind == nodeNull {
		return out
	}
	alone := policy.LimitScheduleToClose
	if wait {
		alone = policy.LimitWait
	}
	if t.kind != nodeObject {
		out.Set(alone, p.limit(alone, t))
		return out
	}
	if t.get("after") != nil || t.get("at") != nil {
		p.fail(t.pos, "write timeout: {"+alone.String()+": {after: …}}", "after belongs to one limit")
		return out
	}
	names := make([]string, len(policy.StepLimits))
	for i, kind := range policy.StepLimits {
		names[i] = kind.String()
	}
	p.object(t, "timeout", names)
	for _, kind := range policy.StepLimits {
		if limit := t.get(kind.String()); limit != nil {
			out.Set(kind, p.limit(kind, limit))
		}
	}
	return out
}

// limit reads one limit and notes where it stands, so that a run can say where its binding limit comes from.
func (p *parsing) limit(kind policy.LimitKind, n *node) *policy.Limit {
	if n.kind == nodeObject {
		known := limitKeys
		if kind == policy.LimitDeadline {
			known = deadlineKeys
		}
		before := len(p.errs)
		if p.object(n, kind.String(), known); len(p.errs) > before {
			return nil
		}
	}
	limit, err := policy.DecodeLimit(kind, n.value())
	if err != nil {
		p.field(n, kind.String(), err)
		return nil
	}
	if limit != nil {
		limit.Origin = p.src.place(n.pos)
	}
	return limit
}

// field reports an error of package policy at the field it is about.
func (p *parsing) field(n *node, what string, err error) {
	var f *policy.FieldError
	if !errors.As(err, &f) {
		p.fail(n.pos, "", "%s: %s", what, err)
		return
	}
	if f.Key {
		last := len(f.Path) - 1
		p.fail(n.at(f.Path[:last]).key(f.Path[last]), "", "%s: %s", what, f.Msg)
		return
	}
	if len(f.Path) > 0 {
		what = f.Path[len(f.Path)-1]
		if len(f.Path) > 1 && isIndex(what) {
			what = f.Path[len(f.Path)-2]
		}
	}
	p.fail(n.at(f.Path).pos, "", "%s: %s", what, f.Msg)
}

func isIndex(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }

func (p *parsing) retry(n *node) *policy.Retry {
	if n == nil || n.kind == nodeNull {
		return nil
	}
	if n.kind == nodeObject {
		before := len(p.errs)
		if p.object(n, "retry", retryKeys); len(p.errs) > before {
			return nil
		}
	}
	r, err := policy.DecodeRetry(n.value())
	if err != nil {
		p.field(n, "retry", err)
		return nil
	}
	if r == nil {
		return nil
	}
	r.Origin = p.src.place(n.pos)
	if when := n.get("when"); when != nil {
		if p.whens == nil {
			p.whens = map[*policy.Retry]*node{}
		}
		p.whens[r] = when
	}
	return r
}

// runLimits reads the timeout of a flow: an amount for the run, or its limits by name.
func (p *parsing) runLimits(n *node) RunLimits {
	var out RunLimits
	if n == nil || n.kind == nodeNull {
		return out
	}
	if n.kind != nodeObject {
		out.Run = p.limit(policy.LimitRun, n)
		return out
	}
	p.object(n, "a flow's timeout", runLimitKeys)
	if v := n.get("execution"); v != nil {
		out.Execution = p.limit(policy.LimitExecution, v)
	}
	if v := n.get("run"); v != nil {
		out.Run = p.limit(policy.LimitRun, v)
	}
	if v := n.get("deadline"); v != nil {
		out.Deadline = p.limit(policy.LimitDeadline, v)
		if out.Deadline != nil && out.Deadline.At == 0 {
			p.fail(v.pos, "for an amount of time use run or execution", "the deadline of a flow is an instant such as 2030-01-31T18:00:00Z")
		}
	}
	return out
}

// duration reads an amount of time that may be zero.
func (p *parsing) duration(n *node, what string) *time.Duration {
	if n == nil || n.kind == nodeNull {
		return nil
	}
	d, err := policy.DecodeDuration(n.value())
	if err != nil {
		p.field(n, what, err)
		return nil
	}
	return &d
}
