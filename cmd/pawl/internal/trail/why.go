package trail

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Sentence is a failure for people, in one line fit for a terminal.
func Sentence(f *policy.Failure) string {
	if f == nil {
		return ""
	}
	return screen.Clean(core.Sentence(f))
}

// StepWhy says in a sentence why a closed step ended as it did; "" where there is nothing to explain.
func (t *Trail) StepWhy(s *core.Step) string {
	last, n := s.Failure, len(t.Attempts(s.ID))
	switch s.Reason {
	case policy.ReasonNone:
		if s.Phase == core.StepSucceeded {
			return ""
		}
		return Sentence(s.Failure)
	case policy.ReasonAttemptsExhausted:
		return fmt.Sprintf("all %d attempts are used up; the last one: %s", s.Counted, Sentence(last))
	case policy.ReasonRetriesOff:
		return Sentence(last) + " (the step has no retries)"
	case policy.ReasonNoTimeLeft:
		text := fmt.Sprintf("attempt %d could not have begun before the %s deadline", n+1, s.Failure.Limit)
		if s.Failure.Origin != "" {
			text += " (set at " + s.Failure.Origin + ")"
		}
		if s.Failure.Cause != nil {
			text += "; the last one: " + Sentence(s.Failure.Cause)
		}
		return text
	case policy.ReasonTimeoutNotRetryable:
		return Sentence(s.Failure)
	case policy.ReasonNonRetryable:
		return Sentence(last) + " (this failure is never retried)"
	case policy.ReasonNotMatched:
		return Sentence(last) + " (the retry policy does not retry this)"
	case policy.ReasonExpressionError:
		return Sentence(last) + " (the policy's retry condition is broken" + t.noteOf(s.ID) + ")"
	case policy.ReasonWorkerLost:
		return fmt.Sprintf("%d attempts in a row were lost with their worker", s.Lost)
	case policy.ReasonSkipped:
		if s.Kept {
			return "its result was kept from an earlier run"
		}
		if s.Upstream {
			return "what it needs did not succeed"
		}
		if retry := s.Spec.Policy.Retry; retry != nil && retry.MaxAttempts == 0 {
			return "its maxAttempts is 0"
		}
		return "its condition is false"
	case policy.ReasonOperator:
		text := "decided by " + t.lastActor(s.Key())
		if s.Failure != nil && s.Phase == core.StepFailed {
			text += ": " + Sentence(s.Failure)
		}
		return text
	default:
		return Sentence(s.Failure)
	}
}

func (t *Trail) noteOf(id core.StepID) string {
	if a := t.Last(id); a != nil && a.Note != "" {
		return ": " + screen.Clean(a.Note)
	}
	return ""
}

func (t *Trail) lastActor(step string) string {
	for i := len(t.Operations) - 1; i >= 0; i-- {
		if op := t.Operations[i]; op.Step == step {
			text := op.Actor
			if op.Reason != "" {
				text += ": " + op.Reason
			}
			return screen.Clean(text)
		}
	}
	return "an operator"
}

// Guilty are the steps whose end explains the run's: those that did not succeed and that nothing tolerated.
func (t *Trail) Guilty() []*core.Step {
	tolerates := func(*core.Step) bool { return false }
	if def := t.Run.Attached(); def != nil && def.Tolerates != nil {
		tolerates = def.Tolerates
	}
	var out []*core.Step
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		failed := s.Phase == core.StepFailed || s.Phase == core.StepTimedOut || (s.Phase == core.StepCancelled && s.Reason != policy.ReasonCancelled)
		if !failed || s.Dropped || s.Spec.Hook || tolerates(s) {
			continue
		}
		out = append(out, s)
	}
	return out
}

// RunWhy says in a sentence why a closed run ended as it did; "" where it succeeded.
func (t *Trail) RunWhy() string {
	r := t.Run
	switch r.Phase {
	case core.RunSucceeded:
		return ""
	case core.RunCancelled, core.RunTerminated:
		for i := len(t.Operations) - 1; i >= 0; i-- {
			op := t.Operations[i]
			if op.Op == core.OpCancel || op.Op == core.OpInterrupt || op.Op == core.OpTerminate {
				text := "by " + op.Actor
				if op.Reason != "" {
					text += ": " + op.Reason
				}
				return screen.Clean(text)
			}
		}
		return Sentence(r.Failure)
	default:
	}
	if guilty := t.Guilty(); r.Phase == core.RunFailed && len(guilty) > 0 {
		first := guilty[0]
		for _, s := range guilty {
			if s.EndedAt < first.EndedAt || (s.EndedAt == first.EndedAt && s.Group != core.NoStep) {
				first = s
			}
		}
		text := fmt.Sprintf("step %q %s: %s", screen.Clean(first.Key()), strings.ReplaceAll(first.Phase.String(), "_", " "), t.StepWhy(first))
		return text
	}
	return Sentence(r.Failure)
}

// Totals counts what a run did.
type Totals struct{ Steps, Succeeded, Failed, Skipped, Attempts, Retries int }

// Totals counts steps (items among them) and attempts.
func (t *Trail) Totals() Totals {
	var out Totals
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		if s.Dropped {
			continue
		}
		out.Steps++
		switch {
		case s.Phase == core.StepSucceeded:
			out.Succeeded++
		case s.Phase == core.StepSkipped:
			out.Skipped++
		case s.Phase.Closed():
			out.Failed++
		}
		n := len(t.attempts[i])
		out.Attempts += n
		out.Retries += max(n-1, 0)
	}
	return out
}
