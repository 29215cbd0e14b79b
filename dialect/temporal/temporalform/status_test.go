package temporalform

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestRetryState checks that a timeout after which no attempt may follow is not retryable, also where it is the one of
// the whole activity. RETRY_STATE_TIMEOUT is only for an attempt that would not fit.
func TestRetryState(t *testing.T) {
	timedOut := func(reason policy.Reason, limit policy.LimitKind) core.Step {
		return core.Step{
			Phase: core.StepTimedOut, Reason: reason, Failure: &policy.Failure{Kind: policy.KindTimeout, Limit: limit},
		}
	}
	notRetried, notFitting := policy.ReasonTimeoutNotRetryable, policy.ReasonNoTimeLeft
	for want, step := range map[[3]string]core.Step{
		{"TIMED_OUT", "RETRY_STATE_NON_RETRYABLE_FAILURE", "SCHEDULE_TO_CLOSE"}: timedOut(notRetried,
			policy.LimitScheduleToClose),
		{"TIMED_OUT", "RETRY_STATE_NON_RETRYABLE_FAILURE", "SCHEDULE_TO_START"}: timedOut(notRetried,
			policy.LimitScheduleToStart),
		{"TIMED_OUT", "RETRY_STATE_NON_RETRYABLE_FAILURE", "HEARTBEAT"}: timedOut(notRetried, policy.LimitHeartbeat),
		{"TIMED_OUT", "RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED", "START_TO_CLOSE"}: timedOut(
			policy.ReasonAttemptsExhausted, policy.LimitStartToClose),
		{"TIMED_OUT", "RETRY_STATE_TIMEOUT", "SCHEDULE_TO_CLOSE"}: timedOut(notFitting, policy.LimitRun),
		{"FAILED", "RETRY_STATE_NON_RETRYABLE_FAILURE", ""}: {
			Phase: core.StepFailed, Reason: policy.ReasonNonRetryable,
		},
		{"FAILED", "RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED", ""}: {
			Phase: core.StepFailed, Reason: policy.ReasonRetriesOff,
		},
		{"CANCELED", "RETRY_STATE_CANCEL_REQUESTED", ""}: {
			Phase: core.StepCancelled, Reason: policy.ReasonCancelled,
		},
		{"SCHEDULED", "RETRY_STATE_IN_PROGRESS", ""}: {Phase: core.StepBackingOff},
		{"COMPLETED", "", ""}:                        {Phase: core.StepSucceeded},
		{"", "", ""}:                                 {Phase: core.StepSkipped, Reason: policy.ReasonSkipped},
	} {
		if got := [3]string{StepStatus(&step), RetryState(&step), TimeoutType(&step)}; got != want {
			t.Errorf("%s (%s): got %q, want %q", step.Phase, step.Reason, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	for phase, want := range map[core.RunPhase]string{
		core.RunPending: "RUNNING", core.RunWaiting: "RUNNING", core.RunPaused: "RUNNING",
		core.RunSucceeded: "COMPLETED", core.RunFailed: "FAILED", core.RunTimedOut: "TIMED_OUT",
		core.RunCancelled: "CANCELED", core.RunTerminated: "TERMINATED", core.RunContinued: "CONTINUED_AS_NEW",
	} {
		if got := Status(&core.Run{Phase: phase}); got != want {
			t.Errorf("%s is %s, want %s", phase, got, want)
		}
	}
}
