package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/schedule"
)

// TestTimes checks several expressions, exclusions and intervals, which keep their beat whatever happens.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   schedule.Spec
		anchor time.Time
		want   string
	}{
		{
			"several",
			schedule.Spec{Cron: "0 9 * * mon-fri; 0 12 * * sat"},
			monday,
			"02 09:00, 03 09:00, 04 09:00, 05 09:00, " +
				"06 09:00, 07 12:00, 09 09:00",
		},
		{
			"exclusions",
			schedule.Spec{Cron: "0 9 * * *", Except: "2026-03-03; 03-05; 2026-03-07..2026-03-08"},
			monday,
			"02 09:00, 04 09:00, 06 09:00, 09 09:00, 10 09:00, 11 09:00, 12 09:00",
		},
		{"interval", schedule.Spec{Cron: "@every 7h"}, monday.Add(-hour), "02 06:00, 02 13:00, 02 20:00, 03 03:00, " +
			"03 10:00, 03 17:00, 04 00:00"},
		{"interval and time", schedule.Spec{Cron: "@every 12h; 0 9 * * *"}, monday, "02 09:00, 02 12:00, 03 00:00, " +
			"03 09:00, 03 12:00, 04 00:00, 04 09:00"},
		{
			"zone",
			schedule.Spec{Cron: "30 1 * * *", Zone: "Europe/Berlin"},
			monday,
			"02 01:30, 03 01:30, 04 01:30, 05 01:30, " +
				"06 01:30, 07 01:30, 08 01:30",
		},
	} {
		table, err := c.spec.Parse(c.anchor)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for at := table.Next(monday); len(got) < 7; at = table.Next(at) {
			got = append(got, at.Format("02 15:04"))
		}
		if all := strings.Join(got, ", "); all != c.want {
			t.Errorf("%s: %s, want %s", c.name, all, c.want)
		}
	}
	if table, err := (schedule.Spec{Cron: "0 9 25 12 *", Except: "12-25"}).Parse(monday); err != nil ||
		!table.Next(monday).IsZero() {
		t.Error("a schedule fires of which all days are excepted", err)
	}
}

// TestClockChanges checks that each night has one run although the clocks change, and what the rules for skipped and
// repeated times do.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct {
		spec schedule.Spec
		day  string
		want string
	}{
		{schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28", "28T01:30 29T01:00 30T00:30"},
		{schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", Skipped: "skip"}, "2026-03-28", "28T01:30 30T00:30"},
		{schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24", "24T00:30 25T00:30 26T01:30"},
		{
			schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", Repeated: "both"},
			"2026-10-24",
			"24T00:30 25T00:30 25T01:30 26T01:30",
		},
	} {
		day, err := time.Parse(time.DateOnly, c.day)
		if err != nil {
			t.Fatal(err)
		}
		c.spec.Overlap = schedule.OverlapAllow
		k := begin(t, c.spec, day)
		k.until(day.AddDate(0, 0, 3))
		var fired []string
		for _, line := range k.log {
			_, text, _ := strings.Cut(line, "start ")
			fired = append(fired, line[:2]+"T"+text)
		}
		if all := strings.Join(fired, " "); all != c.want {
			t.Errorf("%+v: %s, want %s", c.spec, all, c.want)
		}
	}
}

// TestWrongSpecs checks what is refused, each with its field.
func TestWrongSpecs(t *testing.T) {
	for want, spec := range map[string]schedule.Spec{
		"overlap: \"sometimes\" where skip":    {Cron: "@daily", Overlap: "sometimes"},
		"except: \"tomorrow\" is not a date":   {Cron: "@daily", Except: "tomorrow"},
		"ends before it begins":                {Cron: "@daily", Except: "2026-03-02..2026-03-01"},
		"notAfter: \"6\" is not a time of day": {Cron: "@daily", NotAfter: "6"},
		"jitter:":                              {Cron: "@daily", Jitter: "soon"},
		"catchUp:":                             {Cron: "@daily", CatchUp: "-1h"},
		"maxFailures: it is negative":          {Cron: "@daily", MaxFailures: -1},
		"zone:":                                {Cron: "@daily", Zone: "Mars/Base"},
		"has 4 fields":                         {Cron: "@daily; 0 0 * *"},
	} {
		if _, err := spec.Parse(monday); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
}
