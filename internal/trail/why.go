package trail

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// sentence formats a failure as one line.
func sentence(f *policy.Failure) string {
	if f == nil {
		return ""
	}
	return core.Sentence(f)
}

// stepWhy explains in a sentence why a closed step ended as it did; "": there is nothing to explain.
func (t *speaker) stepWhy(s *core.Step) string {
	last, n := s.Failure, s.Attempt
	switch s.Reason {
	case policy.ReasonNone:
		if s.Phase == core.StepSucceeded {
			return ""
		}
		return sentence(s.Failure)
	case policy.ReasonAttemptsExhausted:
		if s.Restarted {
			return fmt.Sprintf("all %d attempts since it was retried are used up; the last one: %s", s.Counted,
				sentence(last))
		}
		return fmt.Sprintf("all %d attempts are used up; the last one: %s", s.Counted, sentence(last))
	case policy.ReasonRetriesOff:
		return sentence(last) + " (the step has no retries)"
	case policy.ReasonNotMatched:
		return sentence(last) + " (" + core.Unmatched(s) + ")"
	case policy.ReasonNoTimeLeft:
		text := fmt.Sprintf("attempt %d could not have begun before the %s deadline", n+1, s.Failure.Limit)
		if s.Failure.Origin != "" {
			text += " (set at " + s.Failure.Origin + ")"
		}
		if s.Failure.Cause != nil {
			text += "; the last one: " + sentence(s.Failure.Cause)
		}
		return text
	case policy.ReasonTimeoutNotRetryable:
		return sentence(s.Failure) + hung(s, n)
	case policy.ReasonNonRetryable:
		return sentence(last) + " (this failure is never retried)"
	case policy.ReasonExpressionError:
		return sentence(last) + " (the policy's retry condition is broken" + noteOf(s) + ")"
	case policy.ReasonWorkerLost:
		return fmt.Sprintf("%d attempts in a row were lost with their worker, %d of them while it ran apart "+
			"from other steps that may kill workers", s.Lost, s.LostAlone)
	case policy.ReasonSkipped:
		if s.Kept {
			return "its result was kept from an earlier run"
		}
		if s.Phase == core.StepSucceeded { // a value that was decided, such as an item of a loop
			return ""
		}
		if s.Upstream {
			return "what it needs did not succeed"
		}
		if retry := s.Spec.Policy.Retry; retry != nil && retry.MaxAttempts == 0 {
			return "its maxAttempts is 0"
		}
		return "its condition is false"
	case policy.ReasonOperator:
		text := "decided by " + t.lastActor(s.ID)
		if s.Failure != nil && s.Phase == core.StepFailed {
			text += ": " + sentence(s.Failure)
		}
		return text
	default:
		return sentence(s.Failure)
	}
}

// hung explains for a step whose first attempt took the time of all attempts which limit each attempt alone has; "" for
// others.
func hung(s *core.Step, attempts int) string {
	p := s.Effective()
	if attempts != 1 || s.Failure.Limit != policy.LimitScheduleToClose || p.Retry == nil || p.Retry.MaxAttempts == 1 ||
		p.Get(policy.LimitStartToClose) != nil {
		return ""
	}
	return "; that limit is for all attempts together, startToClose limits each"
}

func noteOf(s *core.Step) string {
	if s.Past.Note != "" {
		return ": " + s.Past.Note
	}
	return ""
}

// lastActor names who acted last on a step, and why.
func (t *speaker) lastActor(id core.StepID) string {
	for i := len(t.Run.Asked) - 1; i >= 0; i-- {
		if a := t.Run.Asked[i]; a.Step == id {
			text := a.Actor
			if a.Reason != "" {
				text += ": " + a.Reason
			}
			return text
		}
	}
	return "an operator"
}

// suspicion explains for an open step that it may kill its workers, and what follows from that; "" if it is not
// suspected.
func suspicion(s *core.Step) string {
	group := s.SuspectGroup()
	if group == 0 {
		return ""
	}
	counts := fmt.Sprintf("%d of these losses count", s.LostAlone)
	if s.LostAlone == 1 {
		counts = "one of these losses counts"
	}
	if bound := s.Effective().Retry.LostBound(); bound >= 0 {
		counts += fmt.Sprintf(", %d stop it", bound)
	}
	apart := "apart from other suspects"
	if group > 1 {
		apart = fmt.Sprintf("beside at most %d other suspects", group-1)
	}
	text := fmt.Sprintf("it is a suspect: its last %d attempts were lost with their worker, so it runs %s; %s",
		s.Lost, apart, counts)
	switch {
	case s.Phase == core.StepBackingOff && s.NextAt != 0:
		text += "; it goes on at " + s.NextAt.Std().UTC().Format(time.RFC3339)
	case s.Phase == core.StepScheduled && group > 1:
		text += "; it goes on when there is room in its group and a worker is free"
	case s.Phase == core.StepScheduled:
		text += "; it goes on when no other suspect runs and a worker is free"
	}
	return text
}

// causes returns the steps that explain the run's end: those that did not succeed and whose failure was not tolerated.
func (t *speaker) causes() []*core.Step {
	tolerates := func(*core.Step) bool { return false }
	if def := t.Run.Attached(); def != nil && def.Tolerates != nil {
		tolerates = def.Tolerates
	}
	var out []*core.Step
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		failed := s.Phase == core.StepFailed || s.Phase == core.StepTimedOut ||
			(s.Phase == core.StepCancelled && s.Reason != policy.ReasonCancelled)
		if !failed || s.Dropped || s.Spec.Hook || tolerates(s) {
			continue
		}
		out = append(out, s)
	}
	return out
}

// runWhy explains in a sentence why a closed run ended as it did, or "" if it succeeded.
func (t *speaker) runWhy() string {
	if !t.Run.Phase.Closed() {
		return ""
	}
	return t.whyAs(t.Run.Phase, t.Run.Failure)
}

// whyAs explains why the run ended, or ends, in a phase with a failure.
func (t *speaker) whyAs(phase core.RunPhase, f *policy.Failure) string {
	switch phase {
	case core.RunSucceeded:
		return ""
	case core.RunCancelled, core.RunTerminated:
		by, reason := t.askedToEnd()
		if by == "" {
			return sentence(f)
		}
		if reason != "" {
			by += ": " + reason
		}
		return strings.TrimPrefix(by, " ")
	case core.RunFailed:
		if causes := t.causes(); len(causes) > 0 {
			return t.whyFailed(causes, f)
		}
	default:
	}
	return sentence(f)
}

// whyFailed explains a failure of a run by the step that caused it.
func (t *speaker) whyFailed(causes []*core.Step, f *policy.Failure) string {
	first := causes[0]
	for _, s := range causes {
		if s.EndedAt < first.EndedAt || (s.EndedAt == first.EndedAt && s.Group != core.NoStep) {
			first = s
		}
	}
	// A body may have dealt with failures before the one that ended its run, which its error names.
	for _, s := range causes {
		if f != nil && strings.Contains(f.Message, fmt.Sprintf("step %q", s.Key())) {
			first = s
		}
	}
	title := fmt.Sprintf("step %q", first.Key())
	if item := t.itemName(first.ID); item != "" {
		title += " (" + item + ")"
	}
	return fmt.Sprintf("%s %s: %s", title, words(first.Phase.String()), t.stepWhy(first))
}
