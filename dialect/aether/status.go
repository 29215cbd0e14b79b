package aether

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Status returns Aether's word for the state of a workflow's run: Created, Running, Suspended, or one of the ends
// Succeeded, Failed, Error, Timeout and Cancelled.
func Status(r *core.Run) string {
	switch r.Phase {
	case core.RunPending:
		return "Created"
	case core.RunWaiting:
		for i := range r.Steps {
			if TaskPhase(&r.Steps[i]) == "Suspended" {
				return "Suspended"
			}
		}
		return "Running"
	case core.RunSucceeded:
		return "Succeeded"
	case core.RunTimedOut:
		return "Timeout"
	case core.RunCancelled, core.RunTerminated:
		return "Cancelled"
	case core.RunFailed:
		if r.Failure != nil && r.Failure.Kind == policy.KindFailed {
			return "Failed"
		}
		return "Error"
	default:
		return "Running"
	}
}

// TaskPhase returns Aether's word for the state of a task's step.
func TaskPhase(s *core.Step) string {
	switch s.Phase {
	case core.StepPending:
		return "Created"
	case core.StepScheduled, core.StepBackingOff:
		return "Ready"
	case core.StepSuspended:
		if s.Spec.Kind == core.KindWait {
			return "Suspended"
		}
		return "Running"
	case core.StepSucceeded:
		return "Succeeded"
	case core.StepTimedOut:
		f := s.Failure
		if f != nil && (f.Limit == policy.LimitExecution || f.Limit == policy.LimitRun) {
			return "Cancelled" // the workflow's timeout cancelled it
		}
		return "Timeout"
	case core.StepSkipped:
		return "Skipped"
	case core.StepCancelled:
		return "Cancelled"
	case core.StepFailed:
		if s.Failure != nil {
			return phaseOf(s.Failure.Kind)
		}
		return "Error"
	default:
		return "Running"
	}
}

// Retries counts the retries of a task, as its metrics do.
func Retries(s *core.Step) int { return max(s.Counted-1, 0) }
