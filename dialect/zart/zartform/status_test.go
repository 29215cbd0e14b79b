package zartform

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

func TestStatus(t *testing.T) {
	for phase, want := range map[core.RunPhase]string{
		core.RunPending: "Scheduled", core.RunRunning: "Running", core.RunWaiting: "Running",
		core.RunSucceeded: "Completed", core.RunFailed: "Failed", core.RunTimedOut: "Failed",
		core.RunCancelled: "Cancelled", core.RunTerminated: "Cancelled",
	} {
		if got := Status(&core.Run{Phase: phase}); got != want {
			t.Errorf("%s is %s, want %s", phase, got, want)
		}
	}
}

func TestStepStatus(t *testing.T) {
	task, wait := &core.StepSpec{Kind: core.KindTask}, &core.StepSpec{Kind: core.KindWait}
	for _, test := range []struct {
		step core.Step
		want string
	}{
		{core.Step{Spec: task, Phase: core.StepScheduled}, "Scheduled"},
		{core.Step{Spec: task, Phase: core.StepBackingOff}, "Scheduled"},
		{core.Step{Spec: wait, Phase: core.StepSuspended}, "Scheduled"},
		{core.Step{Spec: task, Phase: core.StepRunning}, "Running"},
		{core.Step{Spec: task, Phase: core.StepSucceeded}, "Completed"},
		{core.Step{Spec: task, Phase: core.StepTimedOut}, "TimedOut"},
		{core.Step{
			Spec: wait, Phase: core.StepTimedOut, Failure: &policy.Failure{Limit: policy.LimitWait},
		}, "DeadlineExceeded"},
		{core.Step{
			Spec: wait, Phase: core.StepTimedOut, Failure: &policy.Failure{Limit: policy.LimitExecution},
		}, "TimedOut"},
		{core.Step{Spec: task, Phase: core.StepFailed, Reason: policy.ReasonAttemptsExhausted}, "RetryExhausted"},
		{core.Step{Spec: task, Phase: core.StepFailed, Reason: policy.ReasonRetriesOff}, "Failed"},
		{core.Step{Spec: task, Phase: core.StepFailed, Reason: policy.ReasonNonRetryable}, "Failed"},
		{core.Step{Spec: task, Phase: core.StepCancelled}, "Cancelled"},
		{core.Step{Spec: task, Phase: core.StepSkipped}, ""},
	} {
		if got := StepStatus(&test.step); got != test.want {
			t.Errorf("%s (%s) is %s, want %s", test.step.Phase, test.step.Reason, got, test.want)
		}
	}
}
