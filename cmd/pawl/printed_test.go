package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// growingLog is the log of every attempt.
type growingLog struct{ text string }

func (l *growingLog) Log(_ context.Context, _ string, at api.LogPlace) (api.LogPart, error) {
	return api.LogPart{Text: []byte(l.text[at.From:]), Next: int64(len(l.text))}, nil
}

// TestFollowPrintsWhatComes follows an attempt that goes on: what it has printed before is left out, except for a line
// that had not ended.
func TestFollowPrintsWhatComes(t *testing.T) {
	var out bytes.Buffer
	log := &growingLog{"begins\nhalf of"}
	p := &printed{
		out: &out, logs: log, how: outputFollow, above: map[string]string{}, known: map[attemptKey]*attemptOutput{},
	}
	ev := api.Event{Type: api.EventAttemptStarted, Run: "r", Step: "work", Attempt: 1}
	p.before(t.Context(), ev)
	log.text += " a line\ngoes on\n"
	ev.Type = api.EventAttemptEnded
	p.event(t.Context(), ev)
	if got, want := out.String(), "work             | half of a line\nwork             | goes on\n"; got != want {
		t.Errorf("printed %q, not %q", got, want)
	}
}
