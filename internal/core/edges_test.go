package core

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// TestHowChildrenEndTheirSteps checks that what a child run ended with decides the kind, the type, the code and the
// cause of the failure of its step.
func TestHowChildrenEndTheirSteps(t *testing.T) {
	declined := &policy.Failure{Kind: policy.KindFailed, Type: "Declined", Code: 7}
	for name, c := range map[string]struct {
		phase RunPhase
		with  *policy.Failure
		want  policy.Failure
	}{
		"terminated": {RunTerminated, nil, policy.Failure{Kind: policy.KindCancelled, Type: "terminated"}},
		"cancelled":  {RunCancelled, declined, policy.Failure{Kind: policy.KindCancelled, Type: "cancelled"}},
		"failed":     {RunFailed, declined, policy.Failure{Kind: policy.KindFailed, Type: "Declined", Code: 7}},
		"a step says timeout": {
			RunFailed, &policy.Failure{Kind: policy.KindTimeout, Type: "late"},
			policy.Failure{Kind: policy.KindTimeout, Type: "late"},
		},
		"a limit of a step": {
			RunFailed, &policy.Failure{Kind: policy.KindTimeout, Type: "timeout", Limit: policy.LimitStartToClose},
			policy.Failure{Kind: policy.KindError, Type: "timeout"},
		},
	} {
		r := NewRun(RunID{6: 0x70, 15: 9})
		sub := Schedule{Spec: &StepSpec{Name: "sub", Def: -1, Kind: KindChild}, Item: -1, Group: NoStep}
		stop(t, r, Start{}, Commands{Commands: []Command{sub}})
		stop(t, r, ChildEnded{Step: 0, Attempt: 1, Phase: c.phase, Failure: c.with})
		f := r.Steps[0].Failure
		if f == nil || f.Kind != c.want.Kind || f.Type != c.want.Type || f.Code != c.want.Code || f.Cause != c.with {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestChildExpiresWithItsParent checks that at one instant the run's own limit comes before that of the step, also
// where the child run is the first to act.
func TestChildExpiresWithItsParent(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	p := policy.Policy{Limits: policy.Limits{ScheduleToClose: &policy.Limit{After: time.Hour - time.Second}}}
	sub := Schedule{Spec: &StepSpec{Name: "sub", Def: -1, Kind: KindChild, Policy: p}, Item: -1, Group: NoStep}
	stop(t, r, Start{}, Commands{Commands: []Command{sub}})
	if r.Steps[0].ScheduleToClose != r.Deadline.At {
		t.Fatalf("the deadlines are %s and %s", r.Steps[0].ScheduleToClose, r.Deadline.At)
	}
	ended := ChildEnded{Step: 0, Attempt: 1, Phase: RunTimedOut, Failure: &policy.Failure{Kind: policy.KindTimeout}}
	_, err := Advance(r, stoppable, ended, r.Deadline.At)
	fatal(t, err)
	if f := r.Steps[0].Failure; f == nil || f.Limit != policy.LimitRun {
		t.Errorf("%+v", f)
	}
}

// TestRemoteTasksThatStop checks that a worker in another process is known as long as its work has not stopped.
func TestRemoteTasksThatStop(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	work := Schedule{Spec: &StepSpec{Name: "work", Def: -1, Kind: KindTask}, Item: -1, Group: NoStep}
	stop(t, r, Start{}, Commands{Commands: []Command{work}}, TaskStarted{Attempt: 1, Secret: 7})
	if got := len(r.RemoteTasks()); got != 1 {
		t.Errorf("%d at work", got)
	}
	stop(t, r, Operation{Op: OpSkip, Step: 0})
	if got := len(r.RemoteTasks()); got != 1 || !r.Steps[0].Stopping {
		t.Errorf("%d that stop", got)
	}
	stop(t, r, TaskStopped{Step: 0, Attempt: 1})
	if got := len(r.RemoteTasks()); got != 0 {
		t.Errorf("%d that have stopped", got)
	}
}

// TestItemsHaveDelaysOfTheirOwn checks that the items of a loop do not come back at one instant.
func TestItemsHaveDelaysOfTheirOwn(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	r.Attach(stoppable)
	spec := &StepSpec{Name: "one"}
	if r.random(&Step{Spec: spec, Item: 0, Attempt: 1}) == r.random(&Step{Spec: spec, Item: 1, Attempt: 1}) {
		t.Error("two items have the same random number")
	}
}

// TestWaitThatExpires checks that its failure says that nothing has come, and a warning before names the instant.
func TestWaitThatExpires(t *testing.T) {
	f, err := parseFixture("asked wait=go limit=10m,warn")
	fatal(t, err)
	r := NewRun(RunID{6: 0x70, 15: 9})
	_, err = Advance(r, f.definition(), Start{}, epoch)
	fatal(t, err)
	_, err = Advance(r, f.definition(), Tick{}, epoch.Add(8*time.Minute))
	fatal(t, err)
	if w := r.Warned; w == nil || w.Deadline != epoch.Add(10*time.Minute) {
		t.Errorf("the warning is %+v", w)
	}
	_, err = Advance(r, f.definition(), Tick{}, epoch.Add(10*time.Minute))
	fatal(t, err)
	if got := r.Steps[0].Failure; got == nil || got.Type != "deadline_exceeded" || got.Limit != policy.LimitWait {
		t.Errorf("%+v", got)
	}
}

// TestWarningAfterTheDeadline checks that a run which rested past a deadline reports no warning beside the timeout, and
// that its history says when the deadline passed.
func TestWarningAfterTheDeadline(t *testing.T) {
	f, err := parseFixture("asked wait=go limit=10m,warn")
	fatal(t, err)
	r := NewRun(RunID{6: 0x70, 15: 9})
	_, err = Advance(r, f.definition(), Start{}, epoch)
	fatal(t, err)
	_, err = Advance(r, f.definition(), Tick{}, epoch.Add(12*time.Minute))
	fatal(t, err)
	if r.Warned != nil || r.mustWarn {
		t.Errorf("the warning is %+v", r.Warned)
	}
	if got := r.Steps[0].Failure; got == nil || got.Limit != policy.LimitWait {
		t.Errorf("%+v", got)
	}
	ev := Event{Type: EventStepWarning, At: epoch.Add(12 * time.Minute), Limit: policy.LimitWait}
	ev.Deadline = epoch.Add(10 * time.Minute)
	if text := ev.Text(); text != "the wait deadline passed 2m ago" {
		t.Errorf("it says %q", text)
	}
}

// TestGroupThatExpires checks that its items end with it.
func TestGroupThatExpires(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	p := policy.Policy{Limits: policy.Limits{ScheduleToClose: &policy.Limit{After: time.Minute}}}
	group := Schedule{Spec: &StepSpec{Name: "all", Def: -1, Kind: KindGroup, Policy: p}, Item: -1, Group: NoStep}
	item := Schedule{Spec: &StepSpec{Name: "one", Def: -1, Kind: KindTask}, Item: 0, Group: 0}
	stop(t, r, Start{}, Commands{Commands: []Command{group}}, Commands{Commands: []Command{item}},
		TaskStarted{Step: 1, Attempt: 1})
	_, err := Advance(r, stoppable, Tick{}, r.Steps[0].ScheduleToClose)
	fatal(t, err)
	if r.Steps[0].Phase != StepTimedOut || r.Steps[1].Phase != StepCancelled || !r.Steps[1].Stopping {
		t.Errorf("the group is %s, its item %s", r.Steps[0].Phase, r.Steps[1].Phase)
	}
}

// TestWhatFollowsInAChain checks that each run of a chain has the key, the headers and the first run of the one before.
func TestWhatFollowsInAChain(t *testing.T) {
	f, err := parseFixture("work task\nrun retry=fixed(5,1s)")
	fatal(t, err)
	headers, err := MakeHeaders(map[string]string{"trace": "x"})
	fatal(t, err)
	start := Start{Key: "order-7", Headers: headers}
	first := RunID{6: 0x70, 15: 1}
	for n := range 3 {
		r := NewRun(RunID{6: 0x70, 15: byte(n + 1)})
		var next *Start
		for _, in := range []Input{
			start,
			TaskStarted{Attempt: 1},
			TaskEnded{Attempt: 1, Failure: &policy.Failure{Kind: policy.KindError}},
		} {
			out, err := Advance(r, f.definition(), in, epoch.Add(time.Duration(n+1)*time.Hour))
			fatal(t, err)
			for _, e := range out.Effects {
				if closed, ok := e.(Closed); ok {
					next = closed.Next
				}
			}
		}
		if next == nil || next.Key != "order-7" || next.Headers != headers || next.Chain.First != first ||
			next.Chain.Attempt != n+2 {
			t.Fatalf("after run %d follows %+v", n+1, next)
		}
		start = *next
	}
}

// TestExtendIsNotBack checks that an extension by less than nothing ends a limit now, not earlier.
func TestExtendIsNotBack(t *testing.T) {
	r := stopping(t, false)
	stop(t, r, Operation{Op: OpExtend, Step: NoStep, By: -2 * time.Hour})
	if r.Deadline.At != r.LastAt() {
		t.Errorf("the deadline is %s, and it is %s", r.Deadline.At, r.LastAt())
	}
}

// TestOutcomeIsSettledOnce checks that a second end that is decided changes nothing.
func TestOutcomeIsSettledOnce(t *testing.T) {
	r := stopping(t, false)
	again := Close{Phase: RunFailed, Failure: &policy.Failure{Kind: policy.KindError, Message: "late"}}
	stop(t, r, Commands{Commands: []Command{Close{Phase: RunSucceeded, Output: []byte("1")}, again}})
	if r.Closing == nil || r.Closing.Phase != RunSucceeded || r.Closing.Failure != nil {
		t.Errorf("the outcome is %+v", r.Closing)
	}
}

// TestCompletedGroup checks that the items of a group that an operator completes end with it.
func TestCompletedGroup(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	group := Schedule{Spec: &StepSpec{Name: "all", Def: -1, Kind: KindGroup}, Item: -1, Group: NoStep}
	item := Schedule{Spec: &StepSpec{Name: "one", Def: -1, Kind: KindTask}, Item: 0, Group: 0}
	stop(t, r, Start{}, Commands{Commands: []Command{group}}, Commands{Commands: []Command{item}},
		TaskStarted{Step: 1, Attempt: 1}, Operation{Op: OpComplete, Step: 0, Output: []byte("[]")})
	if r.Steps[0].Phase != StepSucceeded || r.Steps[1].Phase != StepCancelled {
		t.Errorf("the group is %s, its item %s", r.Steps[0].Phase, r.Steps[1].Phase)
	}
}

// TestStepThatCannotBegin checks that it is not tried again, since its input stays what it is.
func TestStepThatCannotBegin(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	p := policy.Policy{Retry: &policy.Retry{MaxAttempts: 3, BackoffCoefficient: 1}}
	stop(t, r, Start{}, Commands{Commands: []Command{Schedule{
		Spec: &StepSpec{Name: "work", Def: -1, Kind: KindTask, Policy: p}, Item: -1, Group: NoStep,
		Failure: &policy.Failure{Kind: policy.KindError, Message: "no such field"},
	}}})
	if s := r.Steps[0]; s.Phase != StepFailed || s.Reason != policy.ReasonNonRetryable {
		t.Errorf("%s, %s", s.Phase, s.Reason)
	}
}

// TestFailureOfASuccess checks that a step that succeeds in the end has not failed.
func TestFailureOfASuccess(t *testing.T) {
	f, err := parseFixture("work task retry=fixed(3,0ms)")
	fatal(t, err)
	r := NewRun(RunID{6: 0x70, 15: 9})
	for _, in := range []Input{
		Start{},
		TaskStarted{Attempt: 1},
		TaskEnded{Attempt: 1, Failure: &policy.Failure{Kind: policy.KindError}},
		TaskStarted{Attempt: 2},
		TaskEnded{Attempt: 2},
	} {
		_, err := Advance(r, f.definition(), in, epoch)
		fatal(t, err)
	}
	if s := r.Steps[0]; s.Phase != StepSucceeded || s.Failure != nil {
		t.Errorf("%s with %v", s.Phase, s.Failure)
	}
}

// TestStartedOnce checks that a run that is retried, and waits in its queue again, was started when it first began.
func TestStartedOnce(t *testing.T) {
	f, err := parseFixture("work task")
	fatal(t, err)
	r := NewRun(RunID{6: 0x70, 15: 9})
	for i, in := range []Input{
		Start{Queue: RunQueue{Name: "q"}},
		Admitted{},
		TaskStarted{Attempt: 1},
		TaskEnded{Attempt: 1, Failure: &policy.Failure{Kind: policy.KindError}},
		Operation{Op: OpRetryRun, Step: NoStep},
		Admitted{},
	} {
		_, err := Advance(r, f.definition(), in, epoch.Add(time.Duration(i)*time.Minute))
		fatal(t, err)
	}
	if r.Phase != RunRunning || r.StartedAt != epoch.Add(time.Minute) {
		t.Errorf("%s, started at %s", r.Phase, offset(r.StartedAt))
	}
}

// TestRunsOfAChainHaveItsDeadline checks that a later run has the execution deadline of the first one, or none, and not
// one of its own.
func TestRunsOfAChainHaveItsDeadline(t *testing.T) {
	f, err := parseFixture("work task")
	fatal(t, err)
	def := f.definition()
	def.Rules = func([]byte) RunRules { return RunRules{Execution: &policy.Limit{After: time.Hour}} }
	for previous, want := range map[RunID]Time{{}: epoch.Add(time.Hour), {1}: 0} {
		r := NewRun(RunID{6: 0x70, 15: 9})
		_, err := Advance(r, def, Start{Chain: Chain{Previous: previous}}, epoch)
		fatal(t, err)
		if r.Execution.At != want {
			t.Errorf("after %v: %s", previous, until(r.Execution.At))
		}
	}
}

// TestDefinitionsQueue checks that what a start does not say of its queue, the definition does.
func TestDefinitionsQueue(t *testing.T) {
	f, err := parseFixture("work task")
	fatal(t, err)
	def := f.definition()
	def.RunQueue = func([]byte) (RunQueue, error) { return RunQueue{Name: "q", Key: "k", Priority: 3}, nil }
	for _, c := range []struct{ start, want RunQueue }{
		{RunQueue{}, RunQueue{Name: "q", Key: "k", Priority: 3}},
		{RunQueue{Key: "own", Priority: 9}, RunQueue{Name: "q", Key: "own", Priority: 9}},
		{RunQueue{Name: "other"}, RunQueue{Name: "other"}},
	} {
		r := NewRun(RunID{6: 0x70, 15: 9})
		_, err := Advance(r, def, Start{Queue: c.start}, epoch)
		fatal(t, err)
		if r.Admission.Queue != c.want {
			t.Errorf("%+v became %+v", c.start, r.Admission.Queue)
		}
	}
}

// TestRecoveredKeepsWhatLives checks that an attempt whose worker has outlived the engine goes on.
func TestRecoveredKeepsWhatLives(t *testing.T) {
	for _, lives := range []bool{false, true} {
		r := NewRun(RunID{6: 0x70, 15: 9})
		work := Schedule{Spec: &StepSpec{Name: "work", Def: -1, Kind: KindTask}, Item: -1, Group: NoStep}
		stop(t, r, Start{}, Commands{Commands: []Command{work}}, TaskStarted{Attempt: 1})
		stop(t, r, Recovered{Alive: map[Token]bool{{r.ID, 0, 1}: lives}})
		if got := r.Steps[0].Phase == StepRunning && r.Steps[0].Attempt == 1; got != lives {
			t.Errorf("it lives: %t, and is %s in attempt %d", lives, r.Steps[0].Phase, r.Steps[0].Attempt)
		}
	}
}

// TestRecoveredWaitsForChildren checks that a child run that closes goes on doing so without the engine of before.
func TestRecoveredWaitsForChildren(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	sub := Schedule{Spec: &StepSpec{Name: "sub", Def: -1, Kind: KindChild}, Item: -1, Group: NoStep}
	stop(t, r, Start{}, Commands{Commands: []Command{sub}}, Operation{Op: OpSkip, Step: 0})
	stop(t, r, Recovered{})
	if !r.Steps[0].Stopping {
		t.Error("nobody waits for the child run any more")
	}
}

// TestNothingToUndo checks that a run that has only results of an earlier one is not asked to undo anything.
func TestNothingToUndo(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	kept := Kept{Def: -1, Spec: &StepSpec{Name: "a", Def: -1}, Item: -1, Phase: StepSucceeded}
	stop(t, r, Start{Keep: []Kept{kept}}, Operation{Op: OpCancelGracefully, Step: NoStep})
	if r.Phase != RunCancelled {
		t.Errorf("it is %s", r.Phase)
	}
}

// TestCompensationDoesNotContinue checks that a body that continues as a new run while it undoes what it did has no
// output.
func TestCompensationDoesNotContinue(t *testing.T) {
	r := stopping(t, false)
	stop(t, r, Operation{Op: OpCancel, Step: NoStep}, TaskStopped{Step: 0, Attempt: 1})
	if !r.Compensating() {
		t.Fatal("its body is not asked")
	}
	stop(t, r, Commands{Stopping: true, Commands: []Command{Close{Phase: RunContinued, Output: []byte("1")}}})
	if r.Phase != RunCancelled || r.Output != nil {
		t.Errorf("it is %s with %s", r.Phase, r.Output)
	}
}
