package temporalform

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Status returns Temporal's word for the state of a run: RUNNING, or one of the ends COMPLETED, FAILED, TIMED_OUT,
// CANCELED, TERMINATED and CONTINUED_AS_NEW.
func Status(r *core.Run) string {
	switch r.Phase {
	case core.RunSucceeded:
		return "COMPLETED"
	case core.RunFailed:
		return "FAILED"
	case core.RunTimedOut:
		return "TIMED_OUT"
	case core.RunCancelled:
		return "CANCELED"
	case core.RunTerminated:
		return "TERMINATED"
	case core.RunContinued:
		return "CONTINUED_AS_NEW"
	default:
		return "RUNNING"
	}
}

// StepStatus returns Temporal's word for an activity: SCHEDULED, STARTED, or one of the ends COMPLETED, FAILED,
// TIMED_OUT and CANCELED; "" for a step that was skipped, since Temporal would never have scheduled it. One that
// waits for its next attempt is SCHEDULED.
func StepStatus(s *core.Step) string {
	switch s.Phase {
	case core.StepRunning, core.StepSuspended:
		return "STARTED"
	case core.StepSucceeded:
		return "COMPLETED"
	case core.StepFailed:
		return "FAILED"
	case core.StepTimedOut:
		return "TIMED_OUT"
	case core.StepCancelled:
		return "CANCELED"
	case core.StepSkipped:
		return ""
	default:
		return "SCHEDULED"
	}
}

// RetryState returns Temporal's word for the reason why an activity is tried again, or is not; "" where it has none.
//
// RETRY_STATE_TIMEOUT is for an activity whose next attempt would not fit into its time. A timeout that is not followed
// by a retry, such as schedule-to-close, is a failure that is not retryable.
func RetryState(s *core.Step) string {
	if s.Phase == core.StepBackingOff {
		return "RETRY_STATE_IN_PROGRESS"
	}
	switch s.Reason {
	case policy.ReasonTimeoutNotRetryable, policy.ReasonNonRetryable, policy.ReasonNotMatched:
		return "RETRY_STATE_NON_RETRYABLE_FAILURE"
	case policy.ReasonAttemptsExhausted, policy.ReasonRetriesOff:
		return "RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED"
	case policy.ReasonNoTimeLeft:
		return "RETRY_STATE_TIMEOUT"
	case policy.ReasonCancelled:
		return "RETRY_STATE_CANCEL_REQUESTED"
	default:
		return ""
	}
}

// TimeoutType returns Temporal's word for the timeout that ended an activity; "" where none did. An activity without
// time for its next attempt ends with SCHEDULE_TO_CLOSE, whichever timeout leaves it no time.
func TimeoutType(s *core.Step) string {
	if s.Reason == policy.ReasonNoTimeLeft {
		return "SCHEDULE_TO_CLOSE"
	}
	if s.Failure == nil || s.Phase != core.StepTimedOut {
		return ""
	}
	switch s.Failure.Limit {
	case policy.LimitScheduleToStart:
		return "SCHEDULE_TO_START"
	case policy.LimitStartToClose:
		return "START_TO_CLOSE"
	case policy.LimitHeartbeat:
		return "HEARTBEAT"
	case policy.LimitScheduleToClose, policy.LimitExecution, policy.LimitRun:
		return "SCHEDULE_TO_CLOSE" // the run's timeouts cap it there
	default:
		return ""
	}
}
