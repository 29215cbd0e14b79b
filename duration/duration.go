package duration

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that is written and read in this package's grammar, as text and as JSON. JSON gets a
// string. A whole number in JSON is read as milliseconds.
type Duration time.Duration

// Std converts to the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the canonical form.
func (d Duration) String() string { return Format(time.Duration(d)) }

// MarshalText writes the canonical form. A negative duration is an error, because Parse could not read it back.
func (d Duration) MarshalText() ([]byte, error) {
	if d < 0 {
		return nil, fmt.Errorf("duration: %s is negative", d)
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads everything that Parse accepts.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = Duration(parsed)
	return nil
}

// UnmarshalJSON reads a string in the grammar or a whole number of milliseconds. Null changes nothing, as is usual
// with encoding/json.
func (d *Duration) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	return d.UnmarshalText([]byte(text))
}
