package zartform

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Status returns Zart's word for the state of an execution: Scheduled, Running, Completed, Failed or Cancelled. An
// execution whose deadline has passed has Failed.
func Status(r *core.Run) string {
	switch r.Phase {
	case core.RunPending:
		return "Scheduled"
	case core.RunSucceeded, core.RunContinued:
		return "Completed"
	case core.RunFailed, core.RunTimedOut:
		return "Failed"
	case core.RunCancelled, core.RunTerminated:
		return "Cancelled"
	default:
		return "Running"
	}
}

// StepStatus returns Zart's word for a step: Scheduled, Running, Completed or Cancelled, or the outcome that its body
// resumes with: TimedOut, DeadlineExceeded of an event wait whose own timeout has passed, RetryExhausted, or Failed
// with an error that is not retried. It is "" for a step that was skipped, since Zart would never have scheduled it.
func StepStatus(s *core.Step) string {
	switch s.Phase {
	case core.StepRunning:
		return "Running"
	case core.StepSucceeded:
		return "Completed"
	case core.StepTimedOut:
		if s.Failure != nil && s.Failure.Limit == policy.LimitWait {
			return "DeadlineExceeded"
		}
		return "TimedOut"
	case core.StepFailed:
		if s.Reason == policy.ReasonAttemptsExhausted {
			return "RetryExhausted"
		}
		return "Failed"
	case core.StepCancelled:
		return "Cancelled"
	case core.StepSkipped:
		return ""
	default:
		return "Scheduled"
	}
}
