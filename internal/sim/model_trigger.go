package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// This file is the checker's own implementation of two settings of flows: the rule by which a step begins when its
// needs have ended (trigger), and that the first failure ends the run (failFast). It looks at the document and the
// records only.

// outcome is the meaning of a step's end for the steps that need it.
type outcome uint8

const (
	notEnded outcome = iota
	succeeded
	failed
	skipped
	skippedAfterFailure // because something that it needs failed
)

// flowStep finds the step of the document; nil: a hook, or a body decides.
func (m *runModel) flowStep(spec *core.StepSpec) *flow.Step {
	if m.ch == nil || m.a.document == nil || spec.Hook {
		return nil
	}
	steps := m.a.document.Steps
	if i := slices.IndexFunc(steps, func(s *flow.Step) bool { return s.Name == spec.Name }); i >= 0 {
		return steps[i]
	}
	return nil
}

// plain reports whether a step is neither in a loop nor a loop. Only such steps have rules.
func plain(s *flow.Step) bool { return s != nil && s.Each == "" && s.Action != nil }

// tolerated reports whether continueOn names the way in which the step ended.
func (s *stepModel) tolerated(step *flow.Step) bool {
	way := flow.EndError
	switch kind := s.failure; {
	case s.phase == core.StepTimedOut, s.phase != core.StepCancelled && kind == policy.KindTimeout:
		way = flow.EndTimeout
	case s.phase == core.StepCancelled, kind == policy.KindCancelled:
		way = flow.EndCancelled
	case kind == policy.KindFailed:
		way = flow.EndFailed
	}
	return slices.Contains(step.ContinueOn, way)
}

// outcomeOf returns how the step of that name has ended, and whether steps with the default rule may begin after it.
func (m *runModel) outcomeOf(name string) (o outcome, goesOn bool) {
	for i := range m.steps {
		s := &m.steps[i]
		if s.dropped || s.group != core.NoStep || s.spec.Hook || s.spec.Name != name {
			continue
		}
		switch {
		case !s.closed:
			return notEnded, false
		case s.phase == core.StepSucceeded:
			return succeeded, true
		case s.phase == core.StepSkipped && s.afterFailure:
			return skippedAfterFailure, false
		case s.phase == core.StepSkipped:
			return skipped, true
		default:
			return failed, s.tolerated(m.flowStep(s.spec))
		}
	}
	return notEnded, false
}

// verdict is the result of a step's rule when all its needs have ended.
type verdict struct{ ended, begins, afterFailure bool }

// rule applies the rule of a step.
func (m *runModel) rule(step *flow.Step) verdict {
	good, bad, goOn := 0, 0, 0
	for _, need := range step.Needs {
		o, goesOn := m.outcomeOf(need)
		switch o {
		case notEnded:
			return verdict{}
		case succeeded:
			good++
		case failed, skippedAfterFailure:
			bad++
		case skipped:
		}
		if goesOn {
			goOn++
		}
	}
	v := verdict{ended: true}
	switch step.Trigger {
	case "always":
		v.begins = true
	case "anyFailed":
		v.begins = bad > 0
	case "allFailed":
		v.begins = bad == len(step.Needs)
	case "anySucceeded":
		v.begins, v.afterFailure = good > 0, bad > 0
	default:
		v.begins, v.afterFailure = goOn == len(step.Needs), true
	}
	return v
}

// checkRule checks a step that begins, or that is skipped by the flow, against its rule.
func (m *runModel) checkRule(spec *core.StepSpec, begins, afterFailure bool) {
	step := m.flowStep(spec)
	if !plain(step) || slices.ContainsFunc(step.Needs, func(need string) bool { return !plain(m.stepNamed(need)) }) {
		return
	}
	v := m.rule(step)
	switch {
	case !v.ended:
		m.fail(Ruled, "step %s is decided before all that it needs has ended", step.Name)
	case begins && !v.begins:
		m.fail(Ruled, "step %s begins, and its rule %q says that it does not", step.Name, step.Trigger)
	case !begins && v.begins && step.When.IsZero() && m.hasAttempts(step):
		m.fail(Ruled, "step %s is skipped, and its rule %q says that it begins", step.Name, step.Trigger)
	case !begins && afterFailure != (!v.begins && v.afterFailure):
		m.fail(Ruled, "step %s is skipped, and whether that is because something failed is recorded as %t", step.Name,
			afterFailure)
	}
}

// hasAttempts reports whether the step may be tried at all: with maxAttempts 0 it is skipped.
func (m *runModel) hasAttempts(step *flow.Step) bool {
	retry := m.a.document.Defaults.Policy.Retry
	for _, s := range m.a.document.Services {
		if s.Name == step.Service && s.Policy.Retry != nil {
			retry = s.Policy.Retry
		}
	}
	if step.Policy.Retry != nil {
		retry = step.Policy.Retry
	}
	return retry == nil || retry.MaxAttempts != 0
}

func (m *runModel) stepNamed(name string) *flow.Step { return m.flowStep(&core.StepSpec{Name: name}) }

// checkAnew checks that a retry leaves no step that needs a repeated one, directly or not.
func (m *runModel) checkAnew() {
	if !m.operated || m.op != core.OpRetryRun && m.op != core.OpRetryStep || m.a.document == nil {
		return
	}
	again, inPart := map[string]bool{}, map[string]bool{} // loops of which some items may be made again
	for i := range m.steps {
		if s := &m.steps[i]; s.resetNow && plain(m.flowStep(s.spec)) {
			again[s.spec.Name] = true
			inPart[s.spec.Name] = !m.flowStep(s.spec).ForEach.IsZero()
		}
	}
	for more := true; more; {
		more = false
		for _, step := range m.a.document.Steps {
			needs := slices.ContainsFunc(step.Needs, func(need string) bool { return again[need] })
			if needs && plain(step) && !again[step.Name] {
				again[step.Name], more = true, true
			}
		}
	}
	for i := range m.before { // those that the entry has made are decided again
		s := &m.steps[i]
		needs := m.flowStep(s.spec) != nil && again[s.spec.Name] && !inPart[s.spec.Name]
		if needs && s.closed && !s.dropped && !s.resetNow {
			m.fail(Ruled, "step %s needs a step that is made again, and keeps its result", m.name(i))
		}
	}
}

// checkFailFast checks that a run with failFast goes on with nothing once a step or an item of one has failed.
func (m *runModel) checkFailFast() {
	if m.a.document == nil || !m.a.document.FailFast || m.closed || m.closing || m.cancelled || m.paused != 0 ||
		m.pending || m.inQueue() {
		return
	}
	for i := range m.steps {
		s := &m.steps[i]
		step := m.flowStep(s.spec)
		if step == nil || s.dropped || !s.closed || s.phase != core.StepFailed && s.phase != core.StepTimedOut {
			continue
		}
		if s.failureType != core.FailureUpstream && !s.tolerated(step) {
			m.fail(Ruled, "step %s has failed, and the run with failFast goes on", m.name(i))
			return
		}
	}
}

// toldName is the step of generated flows that sends a notice of a failure.
const toldName = "told"

// checkTold checks that notices were sent for a run that failed or timed out, and for no other one, if its flow asks
// for that. It looks at the document and the records only.
func (m *runModel) checkTold(phase core.RunPhase) {
	if m.ch == nil || m.a.document == nil || len(m.a.document.Notify) == 0 || phase == core.RunTerminated {
		return
	}
	told := 0
	for i := range m.steps {
		if s := &m.steps[i]; s.spec.Name == toldName && !s.dropped {
			told++
		}
	}
	wanted := 0
	if phase == core.RunFailed || phase == core.RunTimedOut {
		wanted = 1
	}
	if told != wanted {
		m.fail(Ruled, "the run has %s, and somebody was told of a failure %d times, not %d", phase, told, wanted)
	}
}
