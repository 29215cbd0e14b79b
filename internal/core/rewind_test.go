package core

import (
	"testing"

	"github.com/pawl-dev/pawl/policy"
)

// TestRetryLeavesWhatSucceeded: a body that returns an error of another run may name a step that has succeeded in this
// one. A retry does not do that step again.
func TestRetryLeavesWhatSucceeded(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	both := begins(KindTask, 0)
	other := Schedule{Spec: &StepSpec{Name: "other", Def: -1}, Item: -1, Group: NoStep}
	both.Commands = append(both.Commands, other)
	talk(t, r, Start{}, both, TaskStarted{Attempt: 1}, TaskEnded{Attempt: 1}, TaskStarted{Step: 1, Attempt: 1})
	failed := &policy.Failure{Kind: policy.KindFailed}
	talk(t, r, TaskEnded{Step: 1, Attempt: 1, Failure: failed}, Commands{Commands: []Command{
		Close{Phase: RunFailed, Failure: failed, From: []string{KindTask.String(), "other", "elsewhere"}},
	}})
	talk(t, r, Operation{Op: OpRetryRun, Step: NoStep})
	if r.Steps[0].Phase != StepSucceeded || r.Steps[1].Phase.Closed() {
		t.Errorf("after the retry the steps are %s and %s", r.Steps[0].Phase, r.Steps[1].Phase)
	}
}

// TestRetryOfATerminatedEnd: a run that was terminated while it failed goes back to what made it fail.
func TestRetryOfATerminatedEnd(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	both := begins(KindTask, 0)
	both.Commands = append(both.Commands, Schedule{Spec: &StepSpec{Name: "other", Def: -1}, Item: -1, Group: NoStep})
	talk(t, r, Start{}, both, TaskStarted{Attempt: 1}, TaskStarted{Step: 1, Attempt: 1})
	failed := &policy.Failure{Kind: policy.KindFailed}
	talk(t, r, TaskEnded{Attempt: 1, Failure: failed}, Commands{Commands: []Command{
		Close{Phase: RunFailed, Failure: failed, From: []string{KindTask.String()}},
	}})
	talk(t, r, Operation{Op: OpTerminate, Step: NoStep}, TaskStopped{Step: 1, Attempt: 1})
	talk(t, r, Operation{Op: OpRetryRun, Step: NoStep})
	if r.Steps[0].Phase.Closed() || r.Steps[1].Phase.Closed() {
		t.Errorf("after the retry the steps are %s and %s", r.Steps[0].Phase, r.Steps[1].Phase)
	}
}
