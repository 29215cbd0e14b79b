package core

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
)

// TestStartsAreRecorded checks that whatever a start says is recorded with the run.
func TestStartsAreRecorded(t *testing.T) {
	id, now := born()
	queue := RunQueue{Name: "queue"}
	start := func(in Start) Entry {
		out, err := Advance(&Run{ID: id}, &Definition{NewDecider: func(*Run) Decider { return idle{} }}, in, now)
		if err != nil {
			t.Fatal(err)
		}
		return out.Entry
	}
	plain := start(Start{Queue: queue})
	for field, in := range golden.Each[Start]() {
		switch field {
		case "Queue":
			in.Queue.Key = ""
		case "At":
			in.At = now + 1
		case "Keep":
			in.Keep = []Kept{{Def: -1, Name: "step", Phase: StepSucceeded, Spec: &StepSpec{Def: -1}}}
		}
		if field != "Queue" {
			in.Queue = queue
		}
		if reflect.DeepEqual(start(in), plain) {
			t.Errorf("a start with %s is as one without it", field)
		}
	}
}
