package duration

import (
	"strconv"
	"time"
)

// written lists the units that Format uses, largest first.
var written = []struct {
	size time.Duration
	name string
}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}}

// Format writes a duration in its canonical form, with the largest units first: 1d5h, 1m30s, 250ms. It drops fractions
// of a millisecond, and writes zero as 0ms. For every d ≥ 0 of whole milliseconds, Parse(Format(d)) is d. A negative
// duration gets a leading minus sign; Parse refuses it.
func Format(d time.Duration) string {
	d = d.Truncate(time.Millisecond)
	if d == 0 {
		return "0ms"
	}
	var text []byte
	if d < 0 {
		text = append(text, '-')
	}
	for _, unit := range written {
		// Negate each count, not the whole duration: the smallest time.Duration has no positive counterpart, so
		// negating it would overflow.
		n := int64(d / unit.size)
		d %= unit.size
		if n == 0 {
			continue
		}
		if n < 0 {
			n = -n
		}
		text = strconv.AppendInt(text, n, 10)
		text = append(text, unit.name...)
	}
	return string(text)
}
