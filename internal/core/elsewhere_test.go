package core

import (
	"testing"
	"time"
)

// TestElsewhere checks that changes of a run that is elsewhere are recorded, and nothing follows until its program has
// it. An event that comes after a limit does not end a wait.
func TestElsewhere(t *testing.T) {
	theirs := *stoppable
	theirs.Elsewhere = true
	run := func() *Run {
		r := NewRun(RunID{6: 0x70, 15: 9})
		wait := Schedule{Spec: &StepSpec{Name: "w", Def: -1, Kind: KindWait, Event: "go"}, Item: -1, Group: NoStep}
		stop(t, r, Start{}, Commands{Commands: []Command{wait}, Waits: true})
		r.Attach(&theirs)
		return r
	}
	take := func(r *Run, in Input, at Time) Output {
		out, err := Advance(r, nil, in, at)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	r := run()
	take(r, Operation{Op: OpCancel, Step: NoStep}, r.LastAt().Add(time.Second))
	late := r.LastAt().Add(2 * time.Hour)
	if out := take(r, Tick{}, late); len(out.Entry.Records) > 0 || r.Stop != nil || r.Phase.Closed() || r.Wake() == 0 {
		t.Errorf("a cancelled run: %v, %s, wakes at %s", out.Entry.Records, r.Phase, r.Wake())
	}
	r.Attach(stoppable)
	if take(r, Tick{}, late); !r.Compensating() || r.Stop.Until != late.Add(3*time.Minute) {
		t.Errorf("its program does not ask the body: %+v", r.Stop)
	}

	r = run()
	limit := r.Deadline.At
	take(r, Operation{Op: OpCancelGracefully, Step: NoStep}, limit.Add(time.Minute))
	r.Attach(stoppable)
	if at := r.Wake(); at != limit {
		t.Errorf("a run that was cancelled after its limit wakes at %s, the limit was due at %s", at, limit)
	}
	take(r, Tick{}, limit.Add(time.Second)) // the clock went back
	if r.Stop == nil || r.Stop.Phase != RunTimedOut {
		t.Errorf("its limit does not fire: %s, %+v", r.Phase, r.Stop)
	}

	r = run()
	take(r, SignalReceived{Name: "go"}, r.Deadline.At.Add(time.Second))
	if s := r.Steps[0]; s.Phase.Closed() || len(r.Signals) != 1 {
		t.Errorf("an event after the limit of the run: %s, %v", s.Phase, r.Signals)
	}
	r = run()
	if take(r, SignalReceived{Name: "go"}, r.Deadline.At.Add(-time.Second)); r.Steps[0].Phase != StepSucceeded {
		t.Errorf("an event in time: %s", r.Steps[0].Phase)
	}
}
