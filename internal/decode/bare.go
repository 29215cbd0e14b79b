package decode

import (
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/duration"
)

// Bare returns an error if a duration is a number without a unit. Programs count in milliseconds; people who write a
// number alone mean seconds or minutes. Zero needs no unit.
func Bare(value any) error {
	text, ok := value.(string)
	if n, number := number(value); number && !ok {
		if n == 0 {
			return nil
		}
		text = strconv.FormatFloat(n, 'f', -1, 64)
	}
	text = strings.TrimSpace(text)
	if strings.Trim(text, "0") == "" || strings.Trim(text, "0123456789") != "" {
		return nil
	}
	return &Error{Msg: text + ": write " + text + "ms or " + text + "s"}
}

// BarePreset does so for the durations in a retry policy that is written as a text: fixed(3, 10).
func BarePreset(text string) error {
	_, rest, _ := strings.Cut(text, "(")
	inner, _, _ := strings.Cut(rest, ")")
	for i, arg := range strings.Split(inner, ",") {
		name, value, named := strings.Cut(arg, "=")
		switch {
		case i == 0 || named && strings.TrimSpace(name) != "max":
			continue
		case !named:
			value = name
		}
		if err := Bare(value); err != nil {
			return err
		}
	}
	return nil
}

// WithUnit reads a duration as people write it on the command line.
func WithUnit(text string) (duration.Duration, error) {
	if err := Bare(text); err != nil {
		return 0, err
	}
	d, err := duration.Parse(text)
	return duration.Duration(d), err
}
