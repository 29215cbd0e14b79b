package core

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// TestForks checks that a run which begins with entries of another one goes on with fresh work and late sleeps, and
// that its entries fold to the same state.
func TestForks(t *testing.T) {
	base, now := NewRun(RunID{6: 0x70, 15: 1}), Time(1_000_000)
	var entries []Entry
	do := func(r *Run, in Input) Output {
		t.Helper()
		now = now.Add(time.Second)
		out, err := Advance(r, answering, in, now)
		fatal(t, err)
		if len(out.Entry.Records) > 0 {
			entries = append(entries, out.Entry)
		}
		return out
	}
	spec := &StepSpec{Name: "work", Def: -1, Type: "test", Policy: policy.Policy{
		Limits: policy.Limits{ScheduleToClose: &policy.Limit{After: time.Minute}},
	}}
	sleep := &StepSpec{Name: "sleep", Def: -1, Kind: KindSleep}
	do(base, Start{WorkflowID: "w", Run: &policy.Limit{After: time.Hour}})
	do(base, Commands{Commands: []Command{
		Answer{Seen: base.Seq},
		Schedule{Spec: spec, Item: -1, Group: NoStep},
		Schedule{Spec: sleep, Item: -1, Group: NoStep, For: 30 * time.Second},
	}})
	do(base, TaskStarted{Step: 0, Attempt: 1, Worker: "w"})
	known := base.Seq
	do(base, SignalReceived{Name: "later"})

	now = now.Add(10 * time.Minute)
	next := RunID{6: 0x70, 15: 2}
	refuses(t, base, CodeStale, Replaced{Next: next, Seq: known}) // something has happened to it
	do(base, Replaced{Next: next, Seq: base.Seq})
	if base.Phase != RunTerminated || base.Next != next {
		t.Errorf("the run that was replaced is %s, and followed by %s", base.Phase, base.Next)
	}
	forked := NewRun(next)
	forked.Attach(answering)
	for _, e := range entries[:known] {
		forked.Fold(e)
	}
	entries = entries[:known]
	refuses(t, forked, CodeInvalid, Forked{Answer: Answer{Turn: 1}}) // that is not its last entry
	out := do(forked, Forked{
		Answer: Answer{Turn: 1, Seen: known}, Events: []SignalReceived{{Name: "later", Payload: []byte("1")}},
	})
	work := &forked.Steps[0]
	if work.Phase != StepScheduled || work.Counted != 1 || work.ScheduleToClose != now.Add(time.Minute) {
		t.Errorf("the work is %s in attempt %d until %s", work.Phase, work.Counted, work.ScheduleToClose)
	}
	if forked.Steps[1].NextAt != now || forked.Deadline.At != now.Add(time.Hour) || len(forked.Signals) != 1 {
		t.Errorf("the sleep ends at %s, the run at %s, and it has %d events", forked.Steps[1].NextAt,
			forked.Deadline.At, len(forked.Signals))
	}
	if !slices.ContainsFunc(out.Effects, func(e Effect) bool { _, is := e.(Consult); return is }) {
		t.Error("the body is not asked")
	}
	if again := Restore(next, answering, entries); !reflect.DeepEqual(again.Steps, forked.Steps) {
		t.Error("the entries fold to other steps")
	}
}

// TestForkOfStoppingWork checks that a run which begins with entries of another one does not wait for work of that one
// to stop: nobody would tell it.
func TestForkOfStoppingWork(t *testing.T) {
	base, now := NewRun(RunID{6: 0x70, 15: 1}), Time(1_000_000)
	var entries []Entry
	do := func(in Input) {
		t.Helper()
		now = now.Add(time.Second)
		out, err := Advance(base, answering, in, now)
		fatal(t, err)
		entries = append(entries, out.Entry)
	}
	spec := &StepSpec{Name: "work", Def: -1, Type: "test", Policy: policy.Policy{
		Retry: &policy.Retry{MaxAttempts: 3, InitialInterval: time.Second, BackoffCoefficient: 1},
		Limits: policy.Limits{
			StartToClose: &policy.Limit{After: time.Second, Retry: true},
		},
	}}
	do(Start{WorkflowID: "w"})
	do(Commands{Commands: []Command{Answer{Seen: base.Seq}, Schedule{Spec: spec, Item: -1, Group: NoStep}}})
	do(TaskStarted{Step: 0, Attempt: 1, Worker: "w"})
	do(Tick{})
	if !base.Steps[0].Stopping {
		t.Fatal("the attempt is not being stopped")
	}
	forked := NewRun(RunID{6: 0x70, 15: 2})
	forked.Attach(answering)
	for _, e := range entries {
		forked.Fold(e)
	}
	_, err := Advance(forked, answering, Forked{Answer: Answer{Turn: 1, Seen: forked.Seq}}, now)
	fatal(t, err)
	if work := &forked.Steps[0]; work.Stopping || work.Phase != StepScheduled {
		t.Errorf("the work is %s, and that of the other run stops: %t", work.Phase, work.Stopping)
	}
}
