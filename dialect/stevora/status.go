package stevora

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
)

// Status is Stevora's word for how a run is doing: PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED or CANCELLED.
func Status(r *core.Run) string {
	switch r.Phase {
	case core.RunPending:
		return "PENDING"
	case core.RunWaiting:
		return "WAITING"
	case core.RunPaused:
		return "PAUSED"
	case core.RunSucceeded:
		return "COMPLETED"
	case core.RunFailed, core.RunTimedOut:
		return "FAILED"
	case core.RunCancelled, core.RunTerminated:
		return "CANCELLED"
	default:
		return "RUNNING"
	}
}

// StepStatus is Stevora's word for a step. One that waits for its next attempt has FAILED, with the instant of that
// attempt beside it.
func StepStatus(p core.StepPhase) string {
	switch p {
	case core.StepRunning:
		return "RUNNING"
	case core.StepSuspended:
		return "WAITING"
	case core.StepSucceeded:
		return "COMPLETED"
	case core.StepBackingOff, core.StepFailed, core.StepTimedOut:
		return "FAILED"
	case core.StepCancelled:
		return "CANCELLED"
	case core.StepSkipped:
		return "SKIPPED"
	default:
		return "PENDING"
	}
}

// Message is why a run failed, as Stevora says it; "" where it did not.
func Message(r *core.Run) string {
	if Status(r) != "FAILED" {
		return ""
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Phase == core.StepFailed || s.Phase == core.StepTimedOut {
			name := s.Spec.Name
			if s.Failure != nil && s.Failure.Type == contentMissing {
				name = strings.TrimSuffix(name, contentCheck)
			}
			return fmt.Sprintf("Step '%s' failed after %d attempts", name, max(s.Counted, 1))
		}
	}
	return ""
}

// events are Stevora's names for what happens.
var events = map[string]string{
	core.EventRunStarted:         "WORKFLOW_STARTED",
	core.EventRunPaused:          "WORKFLOW_PAUSED",
	"run.succeeded":              "WORKFLOW_COMPLETED",
	"run.failed":                 "WORKFLOW_FAILED",
	"run.cancelled":              "WORKFLOW_CANCELLED",
	core.EventAttemptStarted:     "STEP_STARTED",
	core.EventStepSuspended:      "WORKFLOW_PAUSED",
	"step.succeeded":             "STEP_COMPLETED",
	core.EventStepRetryScheduled: "RETRY_SCHEDULED",
}

// Event is Stevora's name for an event; "" where it has none. Each attempt that fails is a STEP_FAILED, and so is a
// wait that nothing ended in time.
func Event(e core.Event) string {
	switch {
	case e.Type == core.EventAttemptEnded && e.Failure != nil:
		return "STEP_FAILED"
	case (e.Type == "step.failed" || e.Type == "step.timed_out") && e.Attempt == 0:
		return "STEP_FAILED" // a wait, which has no attempts
	case e.Type == core.EventStepSuspended && strings.HasPrefix(e.Name, approvalEvent):
		return "APPROVAL_REQUESTED"
	}
	return events[e.Type]
}
