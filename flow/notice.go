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

// noticeSteps lists the steps that send notices of an outcome. There are no notices of a cancel: whoever cancelled
// knows.
func (d *definition) noticeSteps(r *core.Run) []int32 {
	about := noticeOf(r)
	var out []int32
	for _, def := range d.stages[onNotice] {
		if contains(d.plans[def].notices, about) {
			out = append(out, def)
		}
	}
	return out
}

// noticeOf returns the notice of a run that closes.
func noticeOf(r *core.Run) string {
	switch {
	case r.Closing.Phase.Failed():
		return noticeFailure
	case r.Closing.Phase == core.RunSucceeded && r.Chain.AfterFailure:
		return noticeRecovery
	default:
		return ""
	}
}

// warn sends a notice of the run's first warning. The decision not to send one is recorded, too, so that it is made
// once.
func (t *turn) warn() {
	if t.run.Warned == nil || t.warned {
		return
	}
	t.warned = true
	for _, def := range t.def.stages[onWarning] {
		p := &t.def.plans[def]
		if cmd, begins := t.hook(p, t.scope()); begins {
			t.schedule(cmd)
			continue
		}
		why := "when is false: " + p.when.Text()
		t.cmds = append(t.cmds, core.Skip{Spec: p.spec, Item: -1, Group: core.NoStep, Reason: why})
		t.next++
	}
}

// notice returns the notice of the run for its recipients. It is made of recorded values, so that each attempt to send
// it has the same text.
func (s *scope) notice() *expr.Notice {
	w, c := s.run.Warned, s.run.Closing
	def, known := s.def.ordinal(s.step)
	switch {
	case w != nil && (c == nil || known && contains(s.def.plans[def].notices, noticeWarning)):
		return s.warning(w)
	case c != nil:
		return s.ending(c)
	default:
		return &expr.Notice{}
	}
}

// warning describes a limit that is going to expire.
func (s *scope) warning(w *core.Warning) *expr.Notice {
	left := duration.Format(max(w.Deadline.Sub(s.now), 0).Round(time.Millisecond))
	who, of := s.run.Workflow, ""
	if w.Step != core.NoStep {
		step := s.run.Steps[w.Step].Key()
		who, of = fmt.Sprintf("%s: step %q", who, step), " of step "+step
	}
	ends := fmt.Sprintf("The %s%s ends at %s", w.Limit, of, w.Deadline)
	if w.Origin != "" {
		ends += " (set at " + w.Origin + ")"
	}
	runs := s.whichRun() + " has run since " + s.run.StartedAt.String() + "."
	return &expr.Notice{
		On: noticeWarning, Subject: fmt.Sprintf("%s has %s left of its %s", who, left, w.Limit),
		Text: strings.Join([]string{runs, ends + ".", s.howToLook()}, "\n"),
	}
}

// ending describes how the run ends.
func (s *scope) ending(c *core.Closing) *expr.Notice {
	outcome := strings.ReplaceAll(c.Phase.String(), "_", " ")
	v := &expr.Notice{On: noticeOf(s.run), Subject: s.run.Workflow + " " + outcome}
	lines := []string{s.whichRun() + fmt.Sprintf(" %s after %s.", outcome,
		core.Span(s.now.Sub(s.run.StartedAt)))}
	if v.On == noticeRecovery {
		v.Subject += " again"
		lines = append(lines, "The run before it had failed.")
	}
	if f := c.Failure; f != nil {
		if first, _, _ := strings.Cut(f.Message, "\n"); first != "" {
			v.Subject += ": " + short(first)
		}
		lines = append(lines, s.badSteps()...)
		if text := core.Sentence(f); text != "" {
			lines = append(lines, "Why: "+text)
		}
	}
	v.Text = strings.Join(append(lines, s.howToLook()), "\n")
	return v
}

// whichRun names the run at the beginning of a sentence, by the name that somebody chose for it. A chain without a
// chosen name has the id of its first run as its name, which would be another run than the one to look at.
func (s *scope) whichRun() string {
	run := s.run.WorkflowID
	if _, err := core.ParseRunID(run); err == nil || run == "" {
		run = s.run.ID.String()
	}
	return fmt.Sprintf("Run %s of the flow %s", run, s.run.Workflow)
}

func (s *scope) howToLook() string { return "To look at it: pawl run show " + s.run.ID.String() }

// maxNamed is how many steps a notice names.
const maxNamed = 5

// whyStopped explains why no further attempt of a step followed, if its failure does not.
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

// badSteps names the steps that ended badly, in the order in which they ended.
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
		reason := step.Reason
		if reason == policy.ReasonNotMatched && step.Once() {
			reason = policy.ReasonRetriesOff
		}
		if why := whyStopped[reason]; why != "" {
			text += ": " + why
		}
		lines = append(lines, text+".")
	}
	if more := len(bad) - maxNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("So did %d more.", more))
	}
	return lines
}
