package core

import (
	"errors"
	"fmt"
	"testing"
)

// waiter decides for runs that wait for one event after the other.
type waiter struct{ *fixture }

func (waiter) Decide(r *Run, _ []StepID, _ Time) []Command {
	if n := len(r.Steps); n > 0 && !r.Steps[n-1].Phase.Closed() {
		return nil
	}
	spec := &StepSpec{Name: fmt.Sprint("w", len(r.Steps)), Def: -1, Kind: KindWait, Event: "go"}
	return []Command{Schedule{Spec: spec, Item: -1, Group: NoStep}}
}

func begun(t *testing.T, in Start) *Run {
	t.Helper()
	r := NewRun(RunID{6: 0x70, 15: 9})
	def := &Definition{NewDecider: func(*Run) Decider { return waiter{} }}
	if _, err := Advance(r, def, in, epoch); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTakenIDsAreBounded checks that the ids of the last thousand taken events are known, in this run and the next, and
// no more.
func TestTakenIDsAreBounded(t *testing.T) {
	r := begun(t, Start{})
	send := func(r *Run, i int) (kept bool) {
		out, err := Advance(r, nil, SignalReceived{Name: "go", ID: fmt.Sprint(i)}, epoch)
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Entry.Records) > 0
	}
	for i := range signalIDs + 10 {
		if !send(r, i) {
			t.Fatalf("event %d is no new one", i)
		}
	}
	next := begun(t, Start{Signals: r.Signals})
	for _, run := range []*Run{r, next} {
		if n := len(run.Signals); n != signalIDs {
			t.Errorf("%d ids are kept", n)
		}
		for _, i := range []int{10, 500, signalIDs + 9} {
			if send(run, i) {
				t.Errorf("event %d is taken again", i)
			}
		}
		if !send(run, 9) {
			t.Error("an event whose id is forgotten is not taken for a new one")
		}
	}
}

// TestKeptEventsAreBounded checks that events that nobody takes do not grow without end: the sender is told, and taking
// makes room.
func TestKeptEventsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		payload []byte
		most    int
	}{
		"count": {[]byte("1"), signalsKept},
		"size":  {make([]byte, 2<<20), signalBytes / (2 << 20)},
	} {
		r := begun(t, Start{})
		send := func(event string) error {
			_, err := Advance(r, nil, SignalReceived{Name: event, Payload: c.payload}, epoch)
			return err
		}
		for i := range c.most {
			if err := send("other"); err != nil {
				t.Fatalf("%s: event %d: %v", name, i, err)
			}
		}
		var refused *Error
		if err := send("other"); !errors.As(err, &refused) || refused.Code != CodeFull {
			t.Errorf("%s: one too many: %v", name, err)
		}
		if next := begun(t, Start{Signals: r.Signals}); len(next.Signals) != c.most {
			t.Errorf("%s: the next run begins with %d events, want %d", name, len(next.Signals), c.most)
		}
	}
}
