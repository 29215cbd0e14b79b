package stevora

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// statuses are Stevora's words for the phases of runs.
var statuses = map[string]string{
	core.RunPending.String(): "PENDING", core.RunWaiting.String(): "WAITING", core.RunPaused.String(): "PAUSED",
	core.RunSucceeded.String(): "COMPLETED", core.RunFailed.String(): "FAILED", core.RunTimedOut.String(): "FAILED",
	core.RunCancelled.String(): "CANCELLED", core.RunTerminated.String(): "CANCELLED",
}

// Status returns Stevora's word for a run whose phase has a name: PENDING, RUNNING, WAITING, PAUSED, COMPLETED,
// FAILED or CANCELLED.
func Status(phase string) string {
	if word, ok := statuses[phase]; ok {
		return word
	}
	return "RUNNING"
}

// stepStatuses are Stevora's words for the phases of steps.
var stepStatuses = map[string]string{
	core.StepRunning.String(): "RUNNING", core.StepSuspended.String(): "WAITING",
	core.StepSucceeded.String(): "COMPLETED", core.StepBackingOff.String(): "FAILED",
	core.StepFailed.String(): "FAILED", core.StepTimedOut.String(): "FAILED",
	core.StepCancelled.String(): "CANCELLED", core.StepSkipped.String(): "SKIPPED",
}

// StepStatus returns Stevora's word for a step whose phase has a name. One that waits for its next attempt has
// FAILED, with the instant of that attempt beside it.
func StepStatus(phase string) string {
	if word, ok := stepStatuses[phase]; ok {
		return word
	}
	return "PENDING"
}

// Message returns the reason why a run failed, in Stevora's words; "" where it did not fail.
func Message(r *core.Run) string {
	if Status(r.Phase.String()) != "FAILED" {
		return ""
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Phase == core.StepFailed || s.Phase == core.StepTimedOut {
			return MessageOf(s.Spec.Name, s.Failure, s.Counted)
		}
	}
	return ""
}

// MessageOf returns the reason why a run failed whose step failed after a number of attempts.
func MessageOf(step string, f *policy.Failure, attempts int) string {
	if f != nil && f.Type == contentMissing {
		step = strings.TrimSuffix(step, contentCheck)
	}
	return fmt.Sprintf("Step '%s' failed after %d attempts", step, max(attempts, 1))
}

// events are Stevora's names for events.
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

// Event returns Stevora's name for a kind of event, or "" if it has none. Each attempt that fails is a STEP_FAILED, and
// so is a wait that timed out. The argument name is the name that a wait waits for; attempt is 0 if the event belongs
// to no attempt.
func Event(kind, name string, attempt int, failed bool) string {
	switch {
	case kind == core.EventAttemptEnded && failed:
		return "STEP_FAILED"
	case (kind == "step.failed" || kind == "step.timed_out") && attempt == 0:
		return "STEP_FAILED" // a wait, which has no attempts
	case kind == core.EventStepSuspended && strings.HasPrefix(name, approvalEvent):
		return "APPROVAL_REQUESTED"
	}
	return events[kind]
}

// MessageTypes are the types of the messages of Stevora's webhooks.
var MessageTypes = []string{
	"workflow.started", "workflow.paused", "workflow.completed", "workflow.failed", "workflow.cancelled",
}

// MessageType returns the type of a webhook's message about an event of a whole run: workflow.failed of
// WORKFLOW_FAILED. It returns "" for other events.
func MessageType(event string) string {
	rest, found := strings.CutPrefix(event, "WORKFLOW_")
	if !found {
		return ""
	}
	return "workflow." + strings.ToLower(rest)
}
