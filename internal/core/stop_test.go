package core

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// stoppable is withBody with a body that is asked before its run stops.
var stoppable = func() *Definition {
	d := *withBody
	d.HandlesCancel = true
	rules := RunRules{Run: &policy.Limit{After: time.Hour}, Compensation: 3 * time.Minute}
	d.Rules = func([]byte) RunRules { return rules }
	return &d
}()

// stopping returns a run whose body has decided a task and a sleep, and a detached task if that is asked for. The
// attempts of the tasks run.
func stopping(t *testing.T, detached bool) *Run {
	t.Helper()
	r := NewRun(RunID{6: 0x70, 15: 9})
	step := func(name string, kind StepKind, detached bool) Command {
		spec := &StepSpec{Name: name, Def: -1, Kind: kind, Detached: detached}
		return Schedule{Spec: spec, Item: -1, Group: NoStep, For: time.Hour}
	}
	cmds := []Command{step("task", KindTask, false), step("sleep", KindSleep, false)}
	if detached {
		cmds = append(cmds, step("aside", KindTask, true))
	}
	stop(t, r, Start{}, Commands{Commands: cmds, Waits: true}, TaskStarted{Step: 0, Attempt: 1})
	if detached {
		stop(t, r, TaskStarted{Step: 2, Attempt: 1})
	}
	return r
}

// stop lets inputs happen to the run, one second after the other.
func stop(t *testing.T, r *Run, inputs ...Input) (out Output) {
	t.Helper()
	for _, in := range inputs {
		var err error
		if out, err = Advance(r, stoppable, in, max(r.LastAt(), epoch).Add(time.Second)); err != nil {
			t.Fatalf("%T: %v", in, err)
		}
	}
	return out
}

func refuses(t *testing.T, r *Run, code Code, in Input) {
	t.Helper()
	var refused *Error
	if _, err := Advance(r, stoppable, in, r.LastAt()); !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%+v: %v, want %s", in, err, code)
	}
}

// TestBodyIsAskedWhenTheWorkHasGone checks that the body is asked when the attempt has ended after a graceful cancel,
// when it has stopped after an interrupt, and after the run's limit, too.
func TestBodyIsAskedWhenTheWorkHasGone(t *testing.T) {
	for name, c := range map[string]struct {
		ask, gone Input
		phase     RunPhase
	}{
		"cancel":    {Operation{Op: OpCancelGracefully, Step: NoStep}, TaskEnded{Attempt: 1}, RunCancelled},
		"interrupt": {Operation{Op: OpCancel, Step: NoStep}, TaskStopped{Attempt: 1}, RunCancelled},
		"limit":     {nil, TaskStopped{Attempt: 1}, RunTimedOut},
	} {
		r := stopping(t, true)
		if c.ask != nil {
			stop(t, r, c.ask)
		} else if _, err := Advance(r, stoppable, Tick{}, r.Wake()); err != nil {
			t.Fatal(err)
		}
		if !r.BodyHeld() || r.WaitsForBody() || r.Steps[1].Phase.Closed() != true || r.Steps[2].Phase != StepRunning {
			t.Errorf("%s: held %t: %+v", name, r.BodyHeld(), r.Steps)
		}
		refuses(t, r, CodeConflict, Commands{Closed: 1})
		out := stop(t, r, c.gone)
		asksAll(t, r, out)
		if !r.Compensating() || r.Stop.Phase != c.phase || r.Stop.From != 3 ||
			r.Stop.Until != r.LastAt().Add(3*time.Minute) || r.Wake() != r.Stop.Until {
			t.Errorf("%s: %+v, wakes at %s", name, r.Stop, offset(r.Wake()))
		}
		refuses(t, r, CodeStale, Commands{Closed: 2}) // the caller does not know how much has closed
		refuses(t, r, CodeConflict, Operation{Op: OpPause, Step: NoStep})
		refuses(t, r, CodeConflict, Operation{Op: OpExtend, Step: NoStep, By: time.Hour})

		if c.phase == RunTimedOut { // the chain ends with it, and the compensation goes on
			stop(t, r, Operation{Op: OpCancelGracefully, Step: NoStep})
		}
		refuses(t, r, CodeConflict, Operation{Op: OpCancel, Step: NoStep})
		failed := Close{Phase: RunFailed, Failure: &policy.Failure{Kind: policy.KindFailed, Message: "no refund"}}
		stop(t, r, Commands{Commands: []Command{failed}, Stopping: true})
		if r.Closing == nil || r.Closing.Phase != c.phase || r.Closing.Failure.Cause != failed.Failure {
			t.Errorf("%s: %+v", name, r.Closing)
		}
		stop(t, r, TaskStopped{Step: 2, Attempt: 1})
		if r.Phase != c.phase {
			t.Errorf("%s: the run is %s", name, r.Phase)
		}
	}
}

// TestCompensationEndsInTime ends what is open, and the run.
func TestCompensationEndsInTime(t *testing.T) {
	r := stopping(t, true)
	stop(t, r, Operation{Op: OpCancelGracefully, Step: NoStep}, TaskEnded{Attempt: 1})
	if _, err := Advance(r, stoppable, Tick{}, r.Wake()); err != nil {
		t.Fatal(err)
	}
	if r.Steps[2].Phase != StepTimedOut || r.Closing == nil || r.Closing.Phase != RunCancelled {
		t.Errorf("%+v, %+v", r.Steps[2], r.Closing)
	}
	stop(t, r, TaskStopped{Step: 2, Attempt: 1})
	if r.Phase != RunCancelled || r.Wake() != 0 {
		t.Errorf("%s, wakes at %s", r.Phase, offset(r.Wake()))
	}
}

// TestRetryAfterLateCompensation restarts what only the end of the compensation's time has stopped.
func TestRetryAfterLateCompensation(t *testing.T) {
	r := stopping(t, true)
	stop(t, r, Operation{Op: OpCancelGracefully, Step: NoStep}, TaskEnded{Attempt: 1})
	if _, err := Advance(r, stoppable, Tick{}, r.Wake()); err != nil {
		t.Fatal(err)
	}
	stop(t, r, TaskStopped{Step: 2, Attempt: 1}, Operation{Op: OpRetryRun, Step: NoStep})
	if r.Steps[1].Phase.Closed() || r.Steps[2].Phase != StepScheduled {
		t.Errorf("the retry restarts neither or one of the sleep, which is %s, and the detached task, which is %s",
			r.Steps[1].Phase, r.Steps[2].Phase)
	}
}

// TestRetryAfterCompensation checks that a retry is refused where the body has decided anything.
func TestRetryAfterCompensation(t *testing.T) {
	undo := Schedule{Spec: &StepSpec{Name: "undo", Def: -1, Detached: true}, Item: -1, Group: NoStep}
	for _, undoes := range []bool{false, true} {
		r := stopping(t, false)
		stop(t, r, Operation{Op: OpCancelGracefully, Step: NoStep}, TaskEnded{Attempt: 1})
		if undoes {
			stop(t, r, Commands{Commands: []Command{undo}, Waits: true, Stopping: true},
				TaskStarted{Step: 2, Attempt: 1}, TaskEnded{Step: 2, Attempt: 1})
		}
		stop(t, r, Commands{Commands: []Command{Close{Phase: RunFailed}}, Stopping: true})
		if r.Phase != RunCancelled {
			t.Fatalf("the run is %s", r.Phase)
		}
		retry := Operation{Op: OpRetryRun, Step: NoStep}
		if undoes {
			refuses(t, r, CodeConflict, retry)
			refuses(t, r, CodeConflict, Operation{Op: OpRetryStep, Step: 1})
			continue
		}
		if stop(t, r, retry); r.Phase.Closed() || r.Stop != nil {
			t.Errorf("the run is %s, %+v", r.Phase, r.Stop)
		}
	}
}

// TestStopOfAPausedRun checks that nothing is offered to workers during a pause, and a stop ends the pause. So a
// detached attempt that waits for a worker is offered then.
func TestStopOfAPausedRun(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	aside := Schedule{Spec: &StepSpec{Name: "aside", Def: -1, Detached: true}, Item: -1, Group: NoStep}
	stop(t, r, Start{}, Commands{Commands: []Command{aside}, Waits: true}, Operation{Op: OpPause, Step: NoStep})
	out := stop(t, r, Operation{Op: OpCancelGracefully, Step: NoStep})
	offered := slices.ContainsFunc(out.Effects, func(e Effect) bool {
		offer, ok := e.(Offer)
		return ok && offer.Step == 0
	})
	if !offered {
		t.Errorf("the effects of the stop are %v", out.Effects)
	}
}

// TestStartAfterBothLimits checks that an attempt which is taken after the limit of its run, and after its own one,
// ends at once, though it outlives the run's limit: who took it forgets it.
func TestStartAfterBothLimits(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	aside := Schedule{Spec: &StepSpec{Name: "aside", Def: -1, Detached: true}, Item: -1, Group: NoStep}
	aside.Spec.Policy.ScheduleToClose = &policy.Limit{After: 90 * time.Minute}
	stop(t, r, Start{}, Commands{Commands: []Command{aside}, Waits: true})
	if _, err := Advance(r, stoppable, TaskStarted{Attempt: 1}, epoch.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s := &r.Steps[0]; s.Phase != StepTimedOut || r.Stop == nil {
		t.Errorf("the step is %s, the run has a stop: %t", s.Phase, r.Stop != nil)
	}
}

// TestRetryGoesOnWithACompensation checks that a retry makes again what did not succeed, decides anew what followed
// from its failure, and keeps what was undone after it, so that nothing is undone twice.
func TestRetryGoesOnWithACompensation(t *testing.T) {
	r := stopping(t, false)
	step := func(name string, saw ...string) Schedule {
		return Schedule{
			Spec: &StepSpec{Name: name, Def: -1, Detached: true}, Item: -1, Group: NoStep, Causes: Causes{Saw: saw},
		}
	}
	broken := &policy.Failure{Kind: policy.KindFailed, Message: "broken", NonRetryable: true}
	decide := func(c ...Command) Commands { return Commands{Commands: c, Stopping: true} }
	stop(t, r, Operation{Op: OpCancelGracefully, Step: NoStep}, TaskEnded{Attempt: 1},
		decide(step("refund")), TaskStarted{Step: 2, Attempt: 1}, TaskEnded{Step: 2, Attempt: 1, Failure: broken},
		decide(Mark{Spec: &StepSpec{Name: "note", Def: -1}, Causes: Causes{Saw: []string{"refund"}}},
			step("release", "refund"), step("tell", "refund")),
		TaskStarted{Step: 4, Attempt: 1}, TaskEnded{Step: 4, Attempt: 1},
		TaskStarted{Step: 5, Attempt: 1}, TaskEnded{Step: 5, Attempt: 1, Failure: broken},
		decide(Close{Phase: RunFailed}))
	if r.Phase != RunCancelled || !r.Unfinished() {
		t.Fatalf("the run is %s, its compensation is unfinished: %v", r.Phase, r.Unfinished())
	}
	stop(t, r, Operation{Op: OpRetryRun, Step: NoStep})
	if s := &r.Steps[2]; s.Phase != StepScheduled {
		t.Errorf("%s, which failed, is %s", s.Key(), s.Phase)
	}
	if s := &r.Steps[3]; !s.Dropped {
		t.Errorf("%s, which was noted after the failure, stays", s.Key())
	}
	if s := &r.Steps[4]; !s.Kept || s.Dropped || s.Phase != StepSucceeded {
		t.Errorf("%s, which succeeded after the failure, is not kept: %+v", s.Key(), s)
	}
	if s := &r.Steps[5]; !s.Dropped {
		t.Errorf("%s, which was decided after the failure and failed, is not decided anew: %s", s.Key(), s.Phase)
	}
}
