package core

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// outside decides for runs whose bodies are outside the machine.
type outside struct{}

var withBody = &Definition{NewDecider: func(*Run) Decider { return outside{} }, HasBody: true}

func (outside) Decide(_ *Run, closed []StepID, _ Time) []Command {
	return []Command{Consult{Closed: closed}}
}

func (outside) Match(*Run, *Step, string, *policy.Failure, []byte, Time) judge.Match {
	return judge.Match{}
}

func (outside) Task(*Run, *Step, Time) ([]byte, *policy.Failure) { return nil, nil }

// talk gives a run with a body its inputs, one second after the other, and returns what the last one did.
func talk(t *testing.T, r *Run, inputs ...Input) Output {
	t.Helper()
	var out Output
	for _, in := range inputs {
		var err error
		if out, err = Advance(r, withBody, in, r.LastAt().Add(time.Second)); err != nil {
			t.Fatalf("%T: %v", in, err)
		}
	}
	return out
}

// begins returns a body's decision for a step. The body waits for everything that it has decided then.
func begins(kind StepKind, closed int) Commands {
	spec := &StepSpec{Name: kind.String(), Def: -1, Kind: kind}
	cmd := Schedule{Spec: spec, Item: -1, Group: NoStep, For: time.Hour}
	return Commands{Commands: []Command{cmd}, Waits: true, Closed: closed}
}

// asksAll fails the test where the body is not asked about all of the run.
func asksAll(t *testing.T, r *Run, out Output) {
	t.Helper()
	for _, e := range out.Effects {
		if c, ok := e.(Consult); ok && c.Closed == nil {
			return
		}
	}
	t.Errorf("the body is not asked; the run waits for it: %t", r.WaitsForBody())
}

// TestBodyIsAskedAfterARetry checks that a body is asked after a retry, also if a child run is retried, whose start
// asks the definition for its input.
func TestBodyIsAskedAfterARetry(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	failed := ChildEnded{Attempt: 1, Phase: RunFailed, Failure: &policy.Failure{Kind: policy.KindFailed}}
	retry := Operation{Op: OpRetryStep}
	talk(t, r, Start{}, begins(KindChild, 0), begins(KindSleep, 0), failed, Commands{Waits: true, Closed: 1})
	asksAll(t, r, talk(t, r, retry))
	failed.Attempt++
	pause := Operation{Op: OpPause, Step: NoStep}
	talk(t, r, Commands{Waits: true}, failed, Commands{Waits: true, Closed: 1}, pause, retry,
		Commands{Waits: true}) // said before it has heard of the retry
	asksAll(t, r, talk(t, r, Operation{Op: OpResume, Step: NoStep}))
}

// TestBodyDecidesNothingInAPause checks that a decision that is on its way when its run is paused is refused, and that
// the body is asked when it goes on.
func TestBodyDecidesNothingInAPause(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	talk(t, r, Start{}, Operation{Op: OpPause, Step: NoStep})
	var refused *Error
	_, err := Advance(r, nil, begins(KindChild, 0), r.LastAt())
	if !errors.As(err, &refused) || refused.Code != CodeConflict {
		t.Errorf("%v", err)
	}
	asksAll(t, r, talk(t, r, Operation{Op: OpResume, Step: NoStep}))
	talk(t, r, begins(KindChild, 0))
	if len(r.Steps) != 1 || r.Steps[0].Attempt != 1 {
		t.Errorf("%+v", r.Steps)
	}
}

// TestContinuedWhileTheClockGoesBack checks that the next run of a chain begins at once, on the place in its queue that
// it takes over, though the clock is behind the run before it.
func TestContinuedWhileTheClockGoesBack(t *testing.T) {
	r := begun(t, Start{})
	r.Admission = &Admission{Queue: RunQueue{Name: "desk"}, Admitted: true}
	out := decide(t, r, Close{Phase: RunContinued}) // a second after the start
	var next *Start
	for _, e := range out.Effects {
		if closed, ok := e.(Closed); ok {
			next = closed.Next
		}
	}
	if next == nil {
		t.Fatal("no run follows")
	}
	if follower := begun(t, *next); follower.Phase == RunPending || !follower.HasPlace() {
		t.Errorf("it is %s, and has its place: %v", follower.Phase, follower.HasPlace())
	}
}
