package schedule_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// instant is what the instants of the stored forms are in their files.
var instant = time.Date(2026, 7, 1, 2, 3, 4, 5000, time.UTC)

// TestForms checks that the value of a schedule's run, and the messages to it, have the form of version 0.1.0.
func TestForms(t *testing.T) {
	state := golden.Full[schedule.State]()
	state.Version = schedule.Version
	state.Since, state.Due, state.Edited, state.Until, state.Last = instant, instant, instant, instant, instant
	state.Waiting, state.Skips = []time.Time{instant}, []time.Time{instant}
	for i := range state.Open {
		state.Open[i].Firing = instant
		b := &state.Backfills[i]
		b.After, b.Before, b.Open = instant, instant, instant
		state.Recent[i].From, state.Recent[i].To = instant, instant
	}
	state.Paused.At = instant
	const id = "7cdb5b7caf93f02599862a845c8610b6"
	state.Definition = id
	golden.Form(t, "state.json", &state,
		func(s *schedule.State) ([]byte, error) { return s.Encode() }, schedule.Decode)
	change := golden.Full[schedule.Change]()
	change.Target.Definition = id
	change.From, change.Before, change.Firing = instant, instant, instant
	golden.Form(t, "change.json", change,
		func(c schedule.Change) ([]byte, error) { return json.Marshal(c) },
		func(text []byte) (out schedule.Change, err error) { return out, json.Unmarshal(text, &out) })
}

// TestNewerForm checks that a schedule of a newer version is refused, and not read as far as it goes.
func TestNewerForm(t *testing.T) {
	if _, err := schedule.Decode([]byte(`{"version":2,"name":"nightly"}`)); err == nil {
		t.Error("a schedule of version 2 is read")
	}
}
