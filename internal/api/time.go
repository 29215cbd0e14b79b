package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

// Time is an instant in microseconds since the Unix epoch; 0 means none. As text it is RFC 3339 in UTC.
type Time int64

// At converts a time.Time. The zero time.Time gives 0.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(policy.At(t))
}

// Std returns the instant in UTC. 0 gives the zero time.Time.
func (t Time) Std() time.Time { return policy.Time(t).Std() }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return policy.Time(t).Sub(policy.Time(u)) }

// String returns the instant in RFC 3339, and "" for 0.
func (t Time) String() string {
	if t == 0 {
		return ""
	}
	return policy.Time(t).String()
}

// MarshalText writes RFC 3339 with microseconds, in UTC.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads RFC 3339 in any time zone. The empty text gives 0.
func (t *Time) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = 0
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is not an instant; write it as 2026-01-02T15:04:05Z", text)
	}
	*t = At(at)
	return nil
}

// Duration is a length of time. As text it has the grammar of flow files: 90s, 1m30s, 250ms.
type Duration = duration.Duration

// Extension is a length of time that may be negative. As text it is -30s or 10m.
type Extension time.Duration

// String returns the length, with a minus if it is negative.
func (e Extension) String() string {
	if e < 0 {
		return "-" + duration.Format(-time.Duration(e))
	}
	return duration.Format(time.Duration(e))
}

// MarshalText writes the length.
func (e Extension) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a length, with a minus in front if it is negative.
func (e *Extension) UnmarshalText(text []byte) error {
	rest, negative := strings.CutPrefix(string(text), "-")
	d, err := duration.Parse(rest)
	if err != nil {
		return err
	}
	if *e = Extension(d); negative {
		*e = -*e
	}
	return nil
}
