package flow

import (
	"fmt"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// Task returns the payload of a step's attempt. One without expressions is shared by all attempts of all runs and must
// not be changed.
func (d *decider) Task(r *core.Run, s *core.Step, _ core.Time) ([]byte, *policy.Failure) {
	def, known := d.def.ordinal(s)
	if !known || d.def.plans[def].payload == nil {
		return []byte("null"), nil
	}
	p := &d.def.plans[def]
	if constant, ok := p.payload.Constant(); ok {
		return constant, nil
	}
	sc, err := d.attempt(r, s, def)
	if err == nil {
		var payload []byte
		if payload, err = p.payloadOf(sc); err == nil {
			return payload, nil
		}
	}
	return nil, broken(s.Key(), p.where(), err)
}

// attempt returns the scope of a step's attempt. Its instant is the step's first scheduling, so that every attempt
// gets the same.
func (d *decider) attempt(r *core.Run, s *core.Step, def int32) (*scope, error) {
	d.register(r)
	sc := &scope{decider: d, run: r, step: s, attempt: s.Counted, failure: s.Failure, now: s.ScheduledAt}
	if s.Spec.Hook && r.Closing != nil {
		sc.phase, sc.failure = r.Closing.Phase, r.Closing.Failure
	}
	if s.Item < 0 {
		return sc, nil
	}
	sc.index = int(s.Item)
	parent := d.def.plans[def].group
	if loop := d.def.plans[parent].loop; loop >= 0 {
		sc.around, sc.item = loop+1, d.loopOf(loop).items[s.Item].value
		return sc, nil
	}
	g := d.groupOf(parent)
	if !g.loaded {
		whole := &scope{decider: d, run: r, now: s.ScheduledAt}
		if s.Group != core.NoStep {
			whole.now = r.Steps[s.Group].ScheduledAt
		}
		if err := g.load(&d.def.plans[parent], whole); err != nil {
			return nil, err
		}
	}
	if sc.index < len(g.list) {
		sc.item = g.list[sc.index]
	}
	return sc, nil
}

// Match evaluates a retry condition for the failure of a step's last attempt, or of a run.
func (d *decider) Match(r *core.Run, s *core.Step, when string, f *policy.Failure, output []byte,
	now core.Time,
) judge.Match {
	if s == nil {
		return d.matchRun(r, when, f, now)
	}
	def, known := d.def.ordinal(s)
	if !known {
		return judge.Match{Error: fmt.Sprintf("the flow has no step %q", s.Spec.Name)}
	}
	p := d.def.whens[when]
	if p == nil {
		var bad *expr.Problem
		if p, bad = d.conditionLanguage().Compile(when, varsTask|varsItem, true); bad != nil {
			return judge.Match{Error: bad.Msg}
		}
	}
	sc, err := d.attempt(r, s, def)
	if err != nil {
		return judge.Match{Error: err.Error()}
	}
	sc.failure, sc.returned = f, output
	matched, err := p.Truth(sc)
	if err != nil {
		return judge.Match{Error: err.Error()}
	}
	return judge.Match{Matched: matched}
}

// conditionLanguage returns the language for conditions that an operator set. The document's own is shared by all
// runs and only read.
func (d *decider) conditionLanguage() *expr.Language {
	if d.operatorLanguage == nil {
		d.operatorLanguage = d.def.language.Clone()
	}
	return d.operatorLanguage
}

// matchRun evaluates the condition of the run retry policy for the failure of a run.
func (d *decider) matchRun(r *core.Run, when string, f *policy.Failure, now core.Time) judge.Match {
	p := d.def.whens[when]
	if p == nil {
		return judge.Match{Error: fmt.Sprintf("the flow has no condition %q", when)}
	}
	matched, err := p.Truth(&scope{decider: d, run: r, now: now, attempt: r.Chain.Attempt, failure: f})
	if err != nil {
		return judge.Match{Error: err.Error()}
	}
	return judge.Match{Matched: matched}
}
