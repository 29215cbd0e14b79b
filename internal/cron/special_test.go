package cron

import (
	"strings"
	"testing"
	"time"
)

// TestDaysOfTheMonth checks the days that depend on the month, as Quartz has them: the firings after 1 January 2026.
func TestDaysOfTheMonth(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"0 0 L * *", "01-31 02-28 03-31 04-30"},
		{"0 0 l-2 * ?", "01-29 02-26 03-29 04-28"},
		{"0 0 15W * ?", "01-15 02-16 03-16 04-15"},
		{"0 0 1W * *", "02-02 03-02 04-01 05-01"},
		{"0 0 31W * *", "01-30 03-31 05-29 07-31"},
		{"0 0 LW * *", "01-30 02-27 03-31 04-30"},
		{"0 0 ? * fri#2", "01-09 02-13 03-13 04-10"},
		{"0 0 * * 5#5", "01-30 05-29 07-31 10-30"},
		{"0 0 * * friL", "01-30 02-27 03-27 04-24"},
		{"0 0 * * 0L", "01-25 02-22 03-29 04-26"},
		{"0 0 15,L * *", "01-15 01-31 02-15 02-28"},
		{"0 0 29 2 *", "02-29 02-29 02-29 02-29"},
		{"0 0 13 * fri", "01-02 01-09 01-13 01-16"}, // either of two restrictions
		{"0 0 L * fri", "01-02 01-09 01-16 01-23"},
	} {
		spec, err := Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var got []string
		for range 4 {
			at = spec.Next(at, Shift, First)
			got = append(got, at.Format("01-02"))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s fires on %s, want %s", c.spec, s, c.want)
		}
	}
}

// TestDaysThatAreNone checks what is said of days that are written in another way.
func TestDaysThatAreNone(t *testing.T) {
	for spec, want := range map[string]string{
		"0 0 ? * ?":       "write * in one of them",
		"0 0 * * L":       "say which weekday is the last",
		"0 0 * * fri#6":   "a number from 1 to 5",
		"0 L * * *":       "L and W belong in the field of days",
		"0 0 40W * *":     `"40" is not a number from 1 to 31`,
		"0 0 0 12 * ?":    "a field for seconds, or for years, is left out",
		"0 0 30W 2 *":     "never fires",
		"0 0 * * weird#1": `"weird" is not a number from 0 to 7`,
	} {
		if _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}
