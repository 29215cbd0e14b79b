package flow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// told lists the steps that tell somebody of an outcome. Nobody is told of a cancel: whoever cancelled knows.
func (d *definition) told(c *core.Closing) []int32 {
	about := noticeOf(c.Phase)
	var out []int32
	for _, def := range d.stages[onNotice] {
		if contains(d.plans[def].notices, about) {
			out = append(out, def)
		}
	}
	return out
}

func noticeOf(phase core.RunPhase) string {
	if phase == core.RunFailed || phase == core.RunTimedOut {
		return noticeFailure
	}
	return ""
}

// notice is what somebody is told of the run, which closes. It is made of what is recorded, so that each attempt to
// tell it says the same.
func (s *scope) notice() *expr.Notice {
	c := s.run.Closing
	if c == nil {
		return &expr.Notice{}
	}
	outcome := strings.ReplaceAll(c.Phase.String(), "_", " ")
	v := &expr.Notice{On: noticeOf(c.Phase), Subject: s.run.Workflow + " " + outcome}
	run := s.run.ID.String()
	if s.run.WorkflowID != "" {
		run = s.run.WorkflowID
	}
	lines := []string{fmt.Sprintf("Run %s of the flow %s %s after %s.", run, s.run.Workflow, outcome,
		duration.Format(s.now.Sub(s.run.StartedAt).Round(time.Millisecond)))}
	if f := c.Failure; f != nil {
		if first, _, _ := strings.Cut(f.Message, "\n"); first != "" {
			v.Subject += ": " + short(first)
		}
		lines = append(lines, s.badSteps()...)
		if text := core.Sentence(f); text != "" {
			lines = append(lines, "Why: "+text)
		}
	}
	lines = append(lines, "To look at it: pawl run show "+s.run.ID.String())
	v.Text = strings.Join(lines, "\n")
	return v
}

// maxNamed is how many steps a notice names.
const maxNamed = 5

// whyStopped says why no further attempt of a step followed, where its failure does not say it.
var whyStopped = map[policy.Reason]string{
	policy.ReasonAttemptsExhausted: "all its attempts are used up",
	policy.ReasonRetriesOff:        "it has no retries",
	policy.ReasonNonRetryable:      "this failure is never retried",
	policy.ReasonNotMatched:        "its retry policy does not retry this failure",
	policy.ReasonExpressionError:   "the condition of its retry policy is broken",
	policy.ReasonNoTimeLeft:        "no time was left for another attempt",
	policy.ReasonWorkerLost:        "its worker was lost too often",
	policy.ReasonOperator:          "an operator decided so",
}

// badSteps tells which steps ended badly, the first of them first.
func (s *scope) badSteps() []string {
	var bad []*core.Step
	for i := range s.run.Steps {
		step := &s.run.Steps[i]
		failed := step.Phase == core.StepFailed || step.Phase == core.StepTimedOut
		if failed && !step.Dropped && !step.Spec.Hook && step.Group == core.NoStep && !s.def.tolerates(step) {
			bad = append(bad, step)
		}
	}
	slices.SortStableFunc(bad, func(a, b *core.Step) int { return int(max(-1, min(1, a.EndedAt.Sub(b.EndedAt)))) })
	var lines []string
	for _, step := range bad[:min(len(bad), maxNamed)] {
		text := fmt.Sprintf("Step %s %s", step.Key(), strings.ReplaceAll(step.Phase.String(), "_", " "))
		if step.Attempt > 0 {
			text += fmt.Sprintf(" in attempt %d", step.Attempt)
		}
		if why := whyStopped[step.Reason]; why != "" {
			text += ": " + why
		}
		lines = append(lines, text+".")
	}
	if more := len(bad) - maxNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("So did %d more.", more))
	}
	return lines
}
