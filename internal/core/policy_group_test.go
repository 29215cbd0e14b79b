package core

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// TestSetPolicyReachesItems checks that the policy that an operator gives a group is that of its items, those that are
// open and those that begin later; not of the group itself, which would end with them.
func TestSetPolicyReachesItems(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	group := Schedule{Spec: &StepSpec{Name: "all", Def: -1, Kind: KindGroup}, Item: -1, Group: NoStep}
	item := func(n int32) Command {
		return Schedule{Spec: &StepSpec{Name: "one", Def: -1, Kind: KindTask}, Item: n, Group: 0}
	}
	given := &policy.Policy{Limits: policy.Limits{ScheduleToClose: &policy.Limit{After: time.Hour}}}
	stop(t, r, Start{}, Commands{Commands: []Command{group}}, Commands{Commands: []Command{item(0)}})
	stop(t, r, Operation{Op: OpSetPolicy, Step: 0, Policy: given}, Commands{Commands: []Command{item(1)}})
	for _, s := range r.Steps[1:] {
		if want := s.ScheduledAt.Add(time.Hour); s.ScheduleToClose != want || s.Effective() != given {
			t.Errorf("%s: %s, want %s", s.Key(), s.ScheduleToClose, want)
		}
	}
	if r.Steps[0].ScheduleToClose != 0 {
		t.Errorf("the group has the deadline %s", r.Steps[0].ScheduleToClose)
	}
}

// TestExpiryTellsOfOperations checks that the message of a limit that expired names the instant to which an operation
// has moved it, since its amount alone says another one.
func TestExpiryTellsOfOperations(t *testing.T) {
	r := stopping(t, false)
	stop(t, r, Operation{Op: OpExtend, Step: NoStep, By: time.Hour})
	at := r.Deadline.At
	if _, err := Advance(r, stoppable, Tick{}, at); err != nil {
		t.Fatal(err)
	}
	want := "run limit of 1h, moved to " + at.String() + ", expired"
	if !strings.Contains(r.Stop.Failure.Message, want) {
		t.Errorf("%q, want %q", r.Stop.Failure.Message, want)
	}
}

// TestNoTimeLeftHasNotExpired checks that a step that ends because another attempt would begin after its deadline is
// not told to have expired: the deadline is still to come.
func TestNoTimeLeftHasNotExpired(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 9})
	p := policy.Policy{
		Retry: &policy.Retry{
			MaxAttempts: 3, InitialInterval: time.Hour, BackoffCoefficient: 1, On: []policy.Kind{policy.KindError},
		},
		Limits: policy.Limits{ScheduleToClose: &policy.Limit{After: time.Minute}},
	}
	work := Schedule{Spec: &StepSpec{Name: "work", Def: -1, Kind: KindTask, Policy: p}, Item: -1, Group: NoStep}
	stop(t, r, Start{}, Commands{Commands: []Command{work}}, TaskStarted{Attempt: 1})
	stop(t, r, TaskEnded{Attempt: 1, Failure: &policy.Failure{Kind: policy.KindError, Message: "no"}})
	const want = "scheduleToClose limit of 1m leaves no time for another attempt"
	if s := r.Steps[0]; s.Phase != StepTimedOut || s.Failure.Message != want {
		t.Errorf("%s: %v", s.Phase, s.Failure)
	}
}
