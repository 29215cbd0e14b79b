package cron

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of these tests, wherever they run
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "0 fields", "* * * *": "4 fields", "60 * * * *": `minute: "60"`, "* 24 * * *": "hour", "* * 0 * *": "day",
		"* * * 13 *": "month", "* * * * 8": "weekday", "5-1 * * * *": "ends before it starts", "*/0 * * * *": "step",
		"* * 30 2 *": "never fires", "@every 10ms": "at least one second",
		"@every never": "@every", "@often": "1 fields",
		"a * * * *": `"a"`, "1--2 * * * *": "minute",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestNext(t *testing.T) {
	const layout = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct{ spec, zone, from, want string }{
		{"*/15 * * * *", "UTC", "2026-01-01 00:00:00 +0000", "2026-01-01 00:15:00 +0000"},
		{"0 9 * * mon-fri", "UTC", "2026-01-02 09:00:00 +0000", "2026-01-05 09:00:00 +0000"},
		{"0 0 29 2 *", "UTC", "2026-01-01 00:00:00 +0000", "2028-02-29 00:00:00 +0000"},
		{"0 0 29 2 *", "UTC", "2096-03-01 00:00:00 +0000", "2104-02-29 00:00:00 +0000"},
		{"30 4 1,15 * 5", "UTC", "2026-01-01 04:30:00 +0000", "2026-01-02 04:30:00 +0000"}, // either day
		{"0 0 * * 7", "UTC", "2026-01-01 00:00:00 +0000", "2026-01-04 00:00:00 +0000"},
		{"@daily", "Asia/Tokyo", "2026-01-01 00:00:00 +0900", "2026-01-02 00:00:00 +0900"},
		{"@every 90m", "UTC", "2026-01-01 00:00:00 +0000", "2026-01-01 01:30:00 +0000"},
		{"59 23 31 12 *", "UTC", "2026-12-31 23:59:00 +0000", "2027-12-31 23:59:00 +0000"},
		{"5/20 * * * *", "UTC", "2026-01-01 00:26:00 +0000", "2026-01-01 00:45:00 +0000"},
		{"0 0 1/9223372036854775807 * *", "UTC", "2026-01-01 00:26:00 +0000", "2026-02-01 00:00:00 +0000"},
	} {
		s, err := Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(layout, c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(from.In(zone(t, c.zone)), Shift, First).Format(layout); got != c.want {
			t.Errorf("%s after %s: %s, want %s", c.spec, c.from, got, c.want)
		}
	}
}

// year lists a schedule's firings in a year of a zone.
func year(t *testing.T, spec, zoneName string, y int, gap Gap, fold Fold) []time.Time {
	t.Helper()
	s, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	loc := zone(t, zoneName)
	var out []time.Time
	end := time.Date(y+1, 1, 1, 0, 0, 0, 0, loc)
	before := time.Date(y, 1, 1, 0, 0, 0, 0, loc).Add(-time.Second)
	for at := s.Next(before, gap, fold); at.Before(end); at = s.Next(at, gap, fold) {
		if len(out) > 0 && !at.After(out[len(out)-1]) {
			t.Fatalf("%s in %s: %s follows %s", spec, zoneName, at, out[len(out)-1])
		}
		out = append(out, at)
	}
	return out
}

// TestDaylightSaving uses real changes of 2026. Clocks on Lord Howe change by half an hour, those in Santiago at
// midnight, and those in Kolkata never.
func TestDaylightSaving(t *testing.T) {
	for _, c := range []struct {
		zone, spec string // a local time that one change skips and the other repeats
		gapAt      string // the instant of the change that skips it
		skipped    bool
		repeated   bool
	}{
		{"Europe/Berlin", "30 2 * * *", "2026-03-29T01:00:00Z", true, true},
		{"America/New_York", "30 2 * * *", "2026-03-08T07:00:00Z", true, false},
		{"America/New_York", "30 1 * * *", "", false, true},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T15:30:00Z", true, false},
		{"Australia/Lord_Howe", "45 1 * * *", "", false, true},
		{"America/Santiago", "30 0 * * *", "2026-09-06T04:00:00Z", true, false},
		{"America/Santiago", "30 23 * * *", "", false, true},
		{"Asia/Kolkata", "30 2 * * *", "", false, false},
	} {
		days := 365
		for _, gap := range []Gap{Shift, Skip} {
			for _, fold := range []Fold{First, Both} {
				got := year(t, c.spec, c.zone, 2026, gap, fold)
				want := days
				if c.skipped && gap == Skip {
					want--
				}
				if c.repeated && fold == Both {
					want++
				}
				if len(got) != want {
					t.Errorf("%s in %s, gap %d, fold %d: %d firings, want %d", c.spec,
						c.zone, gap, fold, len(got), want)
				}
				shifted := false
				for _, at := range got {
					shifted = shifted || at.UTC().Format(time.RFC3339) == c.gapAt
				}
				if shifted != (c.skipped && gap == Shift) {
					t.Errorf("%s in %s, gap %d: fires at the change: %t", c.spec, c.zone, gap, shifted)
				}
			}
		}
	}
}

// TestElapsed checks that a schedule that fires every hour does so by elapsed time, also when the clock changes.
func TestElapsed(t *testing.T) {
	for _, name := range []string{
		"Europe/Berlin", "America/New_York", "America/Santiago",
		"Asia/Kolkata", "Africa/Cairo",
	} {
		got := year(t, "0 * * * *", name, 2026, Shift, First)
		for i := 1; i < len(got); i++ {
			if d := got[i].Sub(got[i-1]); d != time.Hour {
				t.Fatalf("%s: %s between %s and %s", name, d, got[i-1], got[i])
			}
		}
		if len(got) != 365*24 {
			t.Errorf("%s: %d firings, want %d", name, len(got), 365*24)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 1-3 1,2 jan mon", "@daily", "@every 1h"} {
		f.Add(s)
	}
	at := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if next := s.Next(at, Shift, First); !next.After(at) {
			t.Errorf("%q: %s is not after %s", text, next, at)
		}
	})
}

// TestNextIsCheap checks that counting the firings of a week looks at each firing once, not at all minutes of the
// days around it.
func TestNextIsCheap(t *testing.T) {
	s, err := Parse("* * * * *")
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"2026-01-15T12:00:00Z", "2026-03-29T00:30:00Z", "2026-10-25T00:30:00Z"} {
		at, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		at = at.In(zone(t, "Europe/Berlin"))
		if n := testing.AllocsPerRun(1, func() { s.Next(at, Shift, First) }); n > 1000 {
			t.Errorf("the firing after %s takes %.0f allocations", from, n)
		}
	}
}
