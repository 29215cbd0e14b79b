package schedule_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// TestForms checks that the inputs of schedules' runs, and the messages to them, have the form of version 0.1.0.
func TestForms(t *testing.T) {
	at := time.Date(2026, 7, 1, 2, 3, 4, 5000, time.UTC)
	state := golden.Full[schedule.State]()
	state.Due, state.Last, state.Paused = at, at.Add(time.Hour), at.Add(2*time.Hour)
	for i := range state.Recent {
		state.Recent[i].From, state.Recent[i].To = at, at
	}
	golden.Form(t, "state.json", state,
		func(s schedule.State) ([]byte, error) { return json.Marshal(s) },
		func(text []byte) (out schedule.State, err error) { return out, json.Unmarshal(text, &out) })
	change := golden.Full[schedule.Change]()
	change.From, change.Before = at, at.Add(time.Hour)
	golden.Form(t, "change.json", change,
		func(c schedule.Change) ([]byte, error) { return json.Marshal(c) },
		func(text []byte) (out schedule.Change, err error) { return out, json.Unmarshal(text, &out) })
}
