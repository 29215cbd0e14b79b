package flow

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// The rules by which a step begins when all its needs have ended.
const (
	allSucceeded = "allSucceeded"
	anySucceeded = "anySucceeded"
	anyFailed    = "anyFailed"
	allFailed    = "allFailed"
	always       = "always"
)

var triggers = []string{allSucceeded, anySucceeded, anyFailed, allFailed, always}

// trigger reads by which rule a step begins.
func (p *parsing) trigger(n *tree.Node) string {
	rule := n.Get("trigger")
	text := p.text(rule, "trigger")
	if text == "" {
		return ""
	}
	if !contains(triggers, text) {
		p.Fail(rule.Pos, triggerHint(text), "trigger knows no %q", text)
	}
	return text
}

// checkTrigger reports a rule that the step cannot have.
func (b *builder) checkTrigger(s *Step) {
	at := s.pos
	switch {
	case s.Trigger == "":
	case !contains(triggers, s.Trigger):
		if b.Source == nil {
			b.stepFail(at, "use "+orList(triggers), "trigger knows no %q", s.Trigger)
		}
	case len(s.Needs) == 0:
		b.stepFail(at, "add needs, or leave trigger out", "trigger looks at what the step needs, and it needs nothing")
	case s.Each != "" || hasList(s) && s.Action == nil:
		b.stepFail(at, "give the rule to a step that needs this one", "a loop and its steps have no trigger")
	}
}

// triggered decides whether a step begins whose needs have all ended. If it does not, it returns why, and whether that
// is because something failed.
func (t *turn) triggered(def int32) (begins bool, why string, upstream bool) {
	p := &t.def.plans[def]
	if p.trigger == "" || p.trigger == allSucceeded {
		for _, need := range p.needs {
			if state := t.nodes[need].state; state == stateBad || state == stateUpstream {
				return false, fmt.Sprintf("needs %s, which %s", t.def.plans[need].spec.Name, t.ending(need)), true
			}
		}
		return true, "", false
	}
	succeeded, failed := 0, 0
	for _, need := range p.needs {
		switch phase := t.phase(need); {
		case phase == core.StepSucceeded:
			succeeded++
		case phase != core.StepSkipped || t.nodes[need].state == stateUpstream:
			failed++
		}
	}
	switch p.trigger {
	case anySucceeded:
		begins, why, upstream = succeeded > 0, "none of its needs succeeded", true
	case anyFailed:
		begins, why = failed > 0, "none of its needs failed"
	case allFailed:
		begins, why = failed == len(p.needs), "not all of its needs failed"
	default: // always
		begins = true
	}
	return begins, "trigger " + p.trigger + ": " + why, upstream && failed > 0
}

// phase returns the phase of a step that has ended. One that this decision skips is not recorded yet.
func (t *turn) phase(def int32) core.StepPhase {
	if id := t.nodes[def].id; int(id) < len(t.run.Steps) {
		return t.run.Steps[id].Phase
	}
	return core.StepSkipped
}

// failFast ends a run whose flow asks for that as soon as a step, or an item of one, has ended badly. It returns nil if
// nothing did. A new decider does not know which steps closed, and looks at all of them.
func (t *turn) failFast(closed []core.StepID) *core.Close {
	if !t.def.doc.FailFast {
		return nil
	}
	if !t.begun {
		closed = make([]core.StepID, len(t.run.Steps))
		for i := range closed {
			closed[i] = core.StepID(i)
		}
	}
	for _, id := range closed {
		s := &t.run.Steps[id]
		def, known := t.def.ordinal(s)
		if !known || s.Dropped || !s.Phase.Closed() || s.Phase == core.StepCancelled || t.classify(def, s) != stateBad {
			continue
		}
		text := t.def.titleOf(t.run, s) + " failed"
		if s.Phase == core.StepTimedOut {
			text = t.def.titleOf(t.run, s) + " timed out"
		}
		f := failureAs(s, text)
		phase := core.RunFailed
		if f.Limit == policy.LimitExecution || f.Limit == policy.LimitRun {
			phase = core.RunTimedOut
		}
		return &core.Close{Phase: phase, Failure: f}
	}
	return nil
}

// failureAs returns the failure of a step, with a text put before its message.
func failureAs(s *core.Step, text string) *policy.Failure {
	if s.Failure == nil {
		return &policy.Failure{Kind: policy.KindError, Message: text}
	}
	f := *s.Failure
	if f.Message != "" {
		text += ": " + f.Message
	}
	f.Message, f.RetryAfter = text, nil
	return &f
}
