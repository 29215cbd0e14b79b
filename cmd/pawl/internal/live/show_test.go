package live

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// TestShowNamesOtherDays checks that a time of day alone belongs to the day and the zone in the head of the run. An
// instant of another day, or on the other side of a change of the clocks, is shown with both.
func TestShowNamesOtherDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	local := time.Local
	time.Local = berlin
	defer func() { time.Local = local }()
	at := func(day, hour int) api.Time {
		return api.Time(policy.At(time.Date(2026, 10, day, hour, 0, 0, 0, time.UTC)))
	}
	r := &api.Run{
		RunSummary: api.RunSummary{CreatedAt: at(24, 22)}, // midnight; summer time ends on this day
		Steps: []*api.Step{{Name: "work", Attempts: []api.Attempt{
			{Attempt: 1, ReadyAt: at(24, 22), StartedAt: at(24, 22), EndedAt: at(24, 22)},
			{Attempt: 2, ReadyAt: at(25, 3), StartedAt: at(25, 3), EndedAt: at(25, 3)},
			{Attempt: 3, ReadyAt: at(26, 3)},
		}}},
		Operations: []api.Audit{{At: at(26, 3)}},
	}
	var text strings.Builder
	for _, line := range Show(r, at(26, 4), 200, Showing{}) {
		text.WriteString(line.String() + "\n")
	}
	for _, want := range []string{
		"created   2026-10-25 00:00:00 +02:00", "#1   00:00:00.000  ", "#2   2026-10-25 04:00:00.000 +01:00  ",
		"#3   waits for a worker since 2026-10-26 04:00:00.000 +01:00", "  2026-10-26 04:00:00 +01:00  ",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestShowTellsWhatKeepsARun checks that an open run that waits for somebody to act says so, whatever else it does.
func TestShowTellsWhatKeepsARun(t *testing.T) {
	r := &api.Run{RunSummary: api.RunSummary{Workflow: "order", Phase: api.RunRunning, Problem: "nobody serves it"}}
	text := ""
	for _, line := range Show(r, 0, 200, Showing{}) {
		text += line.String() + "\n"
	}
	if !strings.Contains(text, "  it cannot go on: nobody serves it\n") {
		t.Errorf("it says\n%s", text)
	}
}
