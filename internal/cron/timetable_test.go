package cron

import (
	"testing"
	"time"
)

// TestFollowing checks that the search returns the first firing after one instant that is not before another instant,
// however far they are apart.
func TestFollowing(t *testing.T) {
	for _, c := range []struct{ spec, zone, began, ended, want string }{
		{"*/10 * * * *", "", "2026-01-01T00:10:00Z", "2026-01-01T00:10:01Z", "2026-01-01T00:20:00Z"},
		{"*/10 * * * *", "", "2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z", "2026-01-01T00:20:00Z"},
		{"*/10 * * * *", "", "2026-01-01T00:10:00Z", "2026-01-01T00:20:01Z", "2026-01-01T00:30:00Z"},
		{"*/10 * * * *", "", "2026-01-01T00:10:00Z", "2027-05-01T00:20:01Z", "2027-05-01T00:30:00Z"},
		{"@every 7m", "", "2026-01-01T00:07:00Z", "2026-01-01T00:07:01Z", "2026-01-01T00:14:00Z"},
		{"@every 7m", "", "2026-01-01T00:07:00Z", "2026-01-01T00:14:00Z", "2026-01-01T00:14:00Z"},
		{"@every 7m", "", "2026-01-01T00:07:00Z", "2026-01-01T00:14:01Z", "2026-01-01T00:21:00Z"},
		// A hundred years of seconds are not counted one by one.
		{"@every 1s", "", "2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z", "2126-01-01T00:00:00Z"},
		{"0 12 * * *", "Asia/Tokyo", "2026-01-01T03:00:00Z", "2026-01-01T03:00:01Z", "2026-01-02T03:00:00Z"},
		// Shifted to the change.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T01:30:00Z", "2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z"},
	} {
		spec, err := Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := ParseZone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		table := Timetable{Spec: spec, Zone: zone}
		if got := table.Following(instant(t, c.began), instant(t, c.ended)); !got.Equal(instant(t, c.want)) {
			t.Errorf("%s %s, began %s, ended %s: %s, want %s", c.spec, c.zone, c.began, c.ended, got.UTC(), c.want)
		}
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestZones(t *testing.T) {
	for name, want := range map[string]string{
		"Local":     `"Local" is another zone on another machine; name one such as Europe/Berlin`,
		"Mars/Base": "unknown time zone Mars/Base; name one such as Europe/Berlin",
	} {
		if _, err := ParseZone(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if zone, err := ParseZone(""); err != nil || zone != time.UTC {
		t.Errorf("%v, %v", zone, err)
	}
}
