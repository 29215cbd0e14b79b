package flow

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Sleep waits: for a duration or until an instant (RFC 3339), or an expression that gives one of them.
type Sleep struct {
	For, Until tree.Value
	ordinary
}

var sleepKeys = []string{"for", "until"}

func (*Sleep) kind() string { return "sleep" }

func (*Sleep) notTask() string { return "a sleep" }

func (s *Sleep) read(p *parsing, n *tree.Node) {
	if n.Kind == tree.Mapping {
		if p.object(n, "sleep", sleepKeys) {
			s.For, s.Until = tree.ValueOf(n.Get("for")), tree.ValueOf(n.Get("until"))
		}
		if s.For.IsZero() == s.Until.IsZero() {
			p.missing(n, sleepKeys, "", "sleep takes for or until")
		}
	} else {
		s.For = tree.ValueOf(n)
	}
	p.amount(tree.NodeOf(s.For), "sleep", func(v any) error { _, err := decode.Duration(v); return err })
	p.amount(tree.NodeOf(s.Until), "until", func(v any) error {
		text, _ := v.(string)
		_, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("%v is not an RFC 3339 instant such as 2030-01-31T18:00:00Z", v)
		}
		return nil
	})
}

func (s *Sleep) encode() tree.Value {
	if s.Until.IsZero() {
		return s.For
	}
	out := object{}
	out.put("until", s.Until)
	return out.value()
}

func (*Sleep) spec(spec *core.StepSpec) { spec.Kind = core.KindSleep }

// shared leaves nothing of the general limits: they are for work, and do not cut the time of a sleep short.
func (*Sleep) shared(policy.Policy) policy.Policy { return policy.Policy{} }

func (s *Sleep) compile(b *builder, p *plan, _ *Step, vars expr.Vars) {
	p.sleep = b.sleep(s, vars&^(expr.VarAttempt|expr.VarCode|expr.VarFailure))
}

func (b *builder) sleep(a *Sleep, vars expr.Vars) *sleepPlan {
	amount, until := a.For, false
	if amount.IsZero() {
		amount, until = a.Until, true
	}
	if amount.IsZero() {
		return nil // reported when it was read
	}
	return &sleepPlan{until, b.compiler.Template(tree.NodeOf(amount), vars, false)}
}

// end computes until when a sleep lasts, where that is an instant, or for how long.
func (p *sleepPlan) end(s *scope) (until core.Time, length time.Duration, err error) {
	v, err := p.amount.Eval(s)
	if err != nil {
		return 0, 0, err
	}
	if at, ok := v.(time.Time); ok {
		return policy.At(at), 0, nil
	}
	if text, ok := v.(string); ok && (p.until || len(text) > 10 && text[4] == '-') {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0, 0, p.amount.Wrong("%s is not an RFC 3339 instant such as 2030-01-31T18:00:00Z", text)
		}
		return policy.At(at), 0, nil
	}
	if p.until {
		return 0, 0, p.amount.Wrong("until takes an instant, not %s", expr.TypeName(v))
	}
	if err := decode.Bare(v); err != nil {
		return 0, 0, p.amount.Wrong("%s", err)
	}
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		v = int64(f)
	}
	d, err := decode.Duration(v)
	if err != nil {
		return 0, 0, p.amount.Wrong("%s", err)
	}
	return 0, d, nil
}

func (*Sleep) pointless(kind policy.LimitKind, _ bool) (severity Severity, code, why string) {
	if kind != policy.LimitScheduleToClose && kind != policy.LimitWait {
		return Warning, lintLimitNoEffect,
			fmt.Sprintf("a sleep has no attempts, so %s has no effect; use scheduleToClose", kind)
	}
	return noEvent(kind)
}

func (*Sleep) lint(l *linter, s *Step, p *plan) {
	if p.sleep != nil && p.sleep.amount != nil && p.sleep.amount.IsConstant() {
		l.sleep(s, p)
	}
}

func (l *linter) sleep(s *Step, p *plan) {
	if p.sleep.until {
		return
	}
	amount, err := p.sleep.amount.Eval(nil) // a constant needs no scope
	if err != nil {
		return
	}
	d, err := decode.Duration(amount)
	if err != nil {
		return
	}
	if run := l.runLimit(); run > 0 && d >= run {
		l.add(Warning, s.pos, lintSleepsTooLong, s.Name, "step %q sleeps at least as long as the run may take", s.Name)
	}
	if limit := p.spec.Policy.ScheduleToClose; limit != nil && d >= limit.After {
		l.once(Warning, limit.Origin, s.pos, lintSleepsTooLong, s.Name, "its sleep of %s does not fit in %s (%s)",
			duration.Format(d), duration.Format(limit.After), policy.LimitScheduleToClose)
	}
}
