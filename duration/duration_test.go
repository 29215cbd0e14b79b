package duration_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

func TestParse(t *testing.T) {
	day := 24 * time.Hour
	for text, want := range map[string]time.Duration{
		// The examples of the grammar's source.
		"3 secs":                   3 * time.Second,
		"10h 30 minutes":           10*time.Hour + 30*time.Minute,
		"1 hour 10minutes 5s":      time.Hour + 10*time.Minute + 5*time.Second,
		"1d 5h":                    day + 5*time.Hour,
		"10 days 1hrs 30m 15 secs": 10*day + time.Hour + 30*time.Minute + 15*time.Second,
		"5m":                       5 * time.Minute,
		"1000ms":                   time.Second,
		// No unit: milliseconds.
		"0":       0,
		"250":     250 * time.Millisecond,
		" 1000 ":  time.Second,
		"0000001": time.Millisecond,
		// Any order, repeated units, and any white space.
		"5s 1h":           time.Hour + 5*time.Second,
		"1s1s 1s":         3 * time.Second,
		"1\th\n30\u00a0m": time.Hour + 30*time.Minute,
		"0d":              0,
		// The largest ones.
		"9223372036854ms": 9223372036854 * time.Millisecond,
		"106751d":         106751 * day,
	} {
		got, err := duration.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseUnits(t *testing.T) {
	for size, names := range map[time.Duration][]string{
		time.Millisecond: {"milliseconds", "millisecond", "millis", "milli", "ms"},
		time.Second:      {"seconds", "second", "secs", "sec", "s"},
		time.Minute:      {"minutes", "minute", "mins", "min", "m"},
		time.Hour:        {"hours", "hour", "hrs", "hr", "h"},
		24 * time.Hour:   {"days", "day", "d"},
	} {
		for _, name := range names {
			for _, text := range []string{"7" + name, "7 " + name, " 7  " + name + " "} {
				if got, err := duration.Parse(text); err != nil || got != 7*size {
					t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, 7*size)
				}
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `duration: empty text at position 1 in ""`},
		{"  ", `duration: empty text at position 1 in "  "`},
		{"3w", `duration: unknown unit "w" at position 2 in "3w"; write 21d`},
		{"1h 3 weeks", `duration: unknown unit "weeks" at position 6 in "1h 3 weeks"`},
		{"5H", `duration: unknown unit "H" at position 2 in "5H"`},
		{"5µs", `duration: unknown unit "µs" at position 2 in "5µs"`},
		{"1h 5µs x", `duration: unknown unit "µs" at position 5 in "1h 5µs x"`},
		{"PT1H30M", `duration: missing number before "PT" at position 1 in "PT1H30M"; write 1h30m`},
		{"2 weeks", `duration: unknown unit "weeks" at position 3 in "2 weeks"; write 14d`},
		{"0.0001ms", `duration: decimal point "." not allowed at position 2 in "0.0001ms"`},
		{"-5s", `duration: sign "-" not allowed at position 1 in "-5s"`},
		{"+5s", `duration: sign "+" not allowed at position 1 in "+5s"`},
		{"1h -5s", `duration: sign "-" not allowed at position 4 in "1h -5s"`},
		{"1.5s", `duration: decimal point "." not allowed at position 2 in "1.5s"; write 1s500ms`},
		{"1,5s", `duration: decimal point "," not allowed at position 2 in "1,5s"; write 1s500ms`},
		{".5s", `duration: decimal point "." not allowed at position 1 in ".5s"; write 500ms`},
		{"1e3s", `duration: unknown unit "e" at position 2 in "1e3s"`},
		{"s", `duration: missing number before "s" at position 1 in "s"`},
		{"5s m", `duration: missing number before "m" at position 4 in "5s m"`},
		{"1h 30", `duration: missing unit after "30" at position 4 in "1h 30"`},
		{"1 2s", `duration: missing unit after "1" at position 1 in "1 2s"`},
		{"5s;", `duration: unexpected ";" at position 3 in "5s;"`},
		{"5_000", `duration: unexpected "_" at position 2 in "5_000"`},
		{"5\xff", `duration: unexpected "\xff" at position 2 in "5\xff"`},
		{"106752d", `duration: number "106752" too large at position 1 in "106752d"`},
		{"9223372036855", `duration: number "9223372036855" too large at position 1 in "9223372036855"`},
		{"106751d 23h 59m", `duration: sum too large with "59m" at position 13 in "106751d 23h 59m"`},
		{
			"99999999999999999999s",
			`duration: number "99999999999999999999" too large at position 1 in "99999999999999999999s"`,
		},
	} {
		got, err := duration.Parse(test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("Parse(%q) = %v, %v\nwant %s", test.text, got, err, test.want)
		}
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                       "0ms",
		time.Microsecond:                        "0ms",
		time.Millisecond + 999*time.Microsecond: "1ms",
		250 * time.Millisecond:                  "250ms",
		90 * time.Second:                        "1m30s",
		24*time.Hour + 5*time.Hour:              "1d5h",
		60 * time.Minute:                        "1h",
		1500 * time.Millisecond:                 "1s500ms",
		math.MaxInt64:                           "106751d23h47m16s854ms",
		-90 * time.Second:                       "-1m30s",
		-time.Microsecond:                       "0ms",
		math.MinInt64:                           "-106751d23h47m16s854ms",
	} {
		if got := duration.Format(d); got != want {
			t.Errorf("Format(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestDurationJSON(t *testing.T) {
	var doc struct{ A, B, C, D duration.Duration }
	doc.D = 7
	const in = `{"A": "1h 30 minutes", "B": 1500, "C": "250", "D": null}`
	if err := json.Unmarshal([]byte(in), &doc); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(doc)
	if want := `{"A":"1h30m","B":"1s500ms","C":"250ms","D":"0ms"}`; err != nil || string(out) != want {
		t.Errorf("got %s, %v; want %s", out, err, want)
	}
	if doc.A.Std() != 90*time.Minute {
		t.Errorf("A is %v", doc.A.Std())
	}
	for _, in := range []string{`"3w"`, `1.5`, `-1`, `1e3`, `true`, `{}`, `[1]`} {
		var d duration.Duration
		if err := json.Unmarshal([]byte(in), &d); err == nil {
			t.Errorf("%s was read as %s", in, d)
		}
	}
	if out, err := json.Marshal(duration.Duration(-1)); err == nil {
		t.Errorf("a negative duration was written as %s", out)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "5m", "10 days 1hrs 30m 15 secs", "3w", "-1", "1.5s",
		"106751d23h47m16s854ms", "1h 30",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := duration.Parse(text)
		if err != nil {
			if d != 0 {
				t.Errorf("%v comes with %v", err, d)
			}
			return
		}
		if d < 0 || d%time.Millisecond != 0 {
			t.Errorf("Parse(%q) = %d", text, d)
		}
		if again, err := duration.Parse(duration.Format(d)); err != nil || again != d {
			t.Errorf("%q is %v, but its canonical form %q is %v, %v", text, d, duration.Format(d), again, err)
		}
	})
}
