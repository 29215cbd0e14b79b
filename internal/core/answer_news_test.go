package core

import (
	"testing"
	"time"
)

// TestUnheardEventsStay checks that an answer takes the events that its body knew, and leaves the others with what they
// carry.
func TestUnheardEventsStay(t *testing.T) {
	r := NewRun(RunID{6: 0x70, 15: 7})
	seen := 0
	for _, in := range []Input{
		Start{},
		SignalReceived{Name: "known", ID: "1", Payload: []byte("1")},
		SignalReceived{Name: "late", ID: "2", Payload: []byte("2")},
	} {
		if _, err := Advance(r, answering, in, r.LastAt().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if s, is := in.(SignalReceived); is && s.Name == "known" {
			seen = r.Seq
		}
	}
	in := Commands{Commands: []Command{Answer{Seen: seen}}}
	if _, err := Advance(r, answering, in, r.LastAt().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if len(r.Signals) != 2 {
		t.Fatalf("%d events are kept", len(r.Signals))
	}
	if known := r.Signals[0]; !known.Taken || known.Payload != nil {
		t.Errorf("the event that the body knew is %+v", known)
	}
	if late := r.Signals[1]; late.Taken || string(late.Payload) != "2" {
		t.Errorf("the event that it did not know is %+v", late)
	}
}
