package core

import (
	"testing"

	"github.com/pawl-dev/pawl/policy"
)

// TestRetryLeavesWhatSucceeded checks that a body that returns an error of another run may name a step that has
// succeeded in this one. A retry does not do that step again.
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

// TestRetryOfATerminatedEnd checks that a run that was terminated while it failed goes back to what made it fail.
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

// decided returns a step that a body decides after it has seen some failures.
func decided(name string, kind StepKind, saw ...string) Schedule {
	spec := &StepSpec{Name: name, Def: -1, Kind: kind}
	if kind == KindWait {
		spec.Event = "news"
	}
	return Schedule{Spec: spec, Item: -1, Group: NoStep, Causes: Causes{Saw: saw}}
}

// labels returns a change of labels that a body decides after it has seen some failures.
func labels(name string, change Labels, saw ...string) Mark {
	return Mark{
		Spec: &StepSpec{Name: name, Def: -1}, Output: []byte(change), Labels: change, Causes: Causes{Saw: saw},
	}
}

// failOn gives a run whose step "task" has failed, and whose body has then decided something and failed, too.
func failOn(t *testing.T, start Start, before []Command, then ...Input) *Run {
	t.Helper()
	r := NewRun(RunID{6: 0x70, 15: 9})
	failed := &policy.Failure{Kind: policy.KindFailed}
	talk(t, r, start, Commands{Commands: before, Waits: true}, TaskStarted{Step: StepID(len(before) - 1), Attempt: 1},
		TaskEnded{Step: StepID(len(before) - 1), Attempt: 1, Failure: failed})
	talk(t, r, then...)
	talk(t, r, Commands{Commands: []Command{Close{Phase: RunFailed, Failure: failed, From: []string{"task"}}}})
	return r
}

// TestRetryUndoesLabels checks that the labels that a body set after it had seen the failure are undone with its
// decision: a label that it changed, one that it added, one that it removed. Labels that it set before stay.
func TestRetryUndoesLabels(t *testing.T) {
	before := []Command{
		labels("one", "kept=by the body\nstage=packed"), labels("gone", "old="), decided("task", KindTask),
	}
	r := failOn(t, Start{Labels: "at=start\nold=yes\nowner=ann"}, before, Commands{Commands: []Command{
		labels("two", "stage=stuck", "task"), labels("three", "new=yes", "task"), labels("four", "owner=", "task"),
		labels("five", "stage=broken", "task"),
	}, Waits: true})
	if want := Labels("at=start\nkept=by the body\nnew=yes\nstage=broken"); r.Labels != want {
		t.Fatalf("before the retry the labels are %q, want %q", r.Labels, want)
	}
	talk(t, r, Operation{Op: OpRetryRun, Step: NoStep})
	want := Labels("at=start\nkept=by the body\nowner=ann\nstage=packed")
	if r.Labels != want {
		t.Errorf("after the retry the labels are %q, want %q", r.Labels, want)
	}
	// A second retry undoes what was set since the first one.
	failed := &policy.Failure{Kind: policy.KindFailed}
	talk(t, r, TaskStarted{Step: 2, Attempt: 2}, TaskEnded{Step: 2, Attempt: 2, Failure: failed},
		Commands{Commands: []Command{
			labels("two", "stage=late", "task"),
			Close{Phase: RunFailed, Failure: failed, From: []string{"task"}},
		}})
	talk(t, r, Operation{Op: OpRetryRun, Step: NoStep})
	if r.Labels != want {
		t.Errorf("after the second retry the labels are %q, want %q", r.Labels, want)
	}
}

// TestRetryGivesEventsBack checks that the events that dropped waits took are taken again, each once and in their
// order, before one that came later. A second delivery of one is still recognised.
func TestRetryGivesEventsBack(t *testing.T) {
	r := failOn(t, Start{}, []Command{decided("task", KindTask)},
		Commands{Commands: []Command{decided("wait1", KindWait, "task")}, Waits: true},
		SignalReceived{Name: "news", ID: "a", Payload: []byte("1")},
		SignalReceived{Name: "news", Payload: []byte("2")},
		SignalReceived{Name: "news", ID: "c", Payload: []byte("3")},
		SignalReceived{Name: "news", ID: "d", Payload: []byte("4")},
		Commands{Commands: []Command{
			decided("wait2", KindWait, "task"), decided("wait3", KindWait, "task"),
		}, Waits: true})
	talk(t, r, Operation{Op: OpRetryRun, Step: NoStep})
	again := SignalReceived{Name: "news", ID: "a", Payload: []byte("1")}
	talk(t, r, again, TaskStarted{Attempt: 2}, TaskEnded{Attempt: 2})
	for _, want := range []string{"1", "2", "3", "4"} {
		next := decided("again"+want, KindWait)
		talk(t, r, Commands{Commands: []Command{next}, Waits: true})
		s, _ := r.Lookup(next.Spec.Name)
		if s.Phase != StepSucceeded || string(s.Output) != want {
			t.Errorf("the wait is %s with %s, want the event %s", s.Phase, s.Output, want)
		}
	}
	talk(t, r, SignalReceived{Name: "news", ID: "c"}, Commands{
		Commands: []Command{decided("last", KindWait)}, Waits: true,
	})
	if s, _ := r.Lookup("last"); s.Phase != StepSuspended {
		t.Errorf("an event was taken twice: %s", s.Output)
	}
}
