package duration

import (
	"strconv"
	"time"
)

// written are the units that Format uses, largest first.
var written = []struct {
	size time.Duration
	name string
}{{Day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}}

// Format writes a duration in its canonical form, the largest units first: 1d5h, 1m30s, 250ms. What is smaller than
// a millisecond is dropped, and zero is 0ms. For every d ≥ 0 that is whole milliseconds, Parse(Format(d)) is d. A
// negative duration, which Parse refuses, is written with a leading minus sign.
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
		// The remainder keeps its sign and each count is negated by itself, so that the smallest duration, which
		// has no positive counterpart, is written like any other.
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
