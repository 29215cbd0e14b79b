package aether

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestRetries checks that attempts that were lost are not retries.
func TestRetries(t *testing.T) {
	for _, test := range []struct{ attempt, counted, want int }{{0, 0, 0}, {1, 1, 0}, {4, 2, 1}, {3, 3, 2}} {
		if got := Retries(&core.Step{Attempt: test.attempt, Counted: test.counted}); got != test.want {
			t.Errorf("attempt %d, %d of them counted, is retry %d", test.attempt, test.counted, got)
		}
	}
}

// TestTaskPhase checks that a task which the workflow's timeout ended was cancelled by it, and has not timed out
// itself.
func TestTaskPhase(t *testing.T) {
	for limit, want := range map[policy.LimitKind]string{
		policy.LimitScheduleToClose: "Timeout", policy.LimitWait: "Timeout",
		policy.LimitRun: "Cancelled", policy.LimitExecution: "Cancelled",
	} {
		step := &core.Step{Phase: core.StepTimedOut, Failure: &policy.Failure{Limit: limit}}
		if got := TaskPhase(step); got != want {
			t.Errorf("%s: %s", limit, got)
		}
	}
}
