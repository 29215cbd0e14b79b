package screen

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// For writes a duration for people; see [api.Length].
func For(d time.Duration) string { return api.Length(d) }

// Clock writes a duration that grows as one looks: always with both units, so that it keeps its width.
func Clock(d time.Duration) string { return api.Digits(max(d, 0)) }

// Left writes a countdown: rounded up, so that it does not show 0s while there is time, in steps of a tenth of a second
// in the last ten seconds and of a second before.
func Left(d time.Duration) string {
	switch {
	case d <= 0:
		return "0.0s"
	case d <= 10*time.Second:
		tenths := (d + 100*time.Millisecond - 1) / (100 * time.Millisecond)
		return fmt.Sprintf("%d.%ds", tenths/10, tenths%10)
	default:
		return api.Digits((d + time.Second - 1).Truncate(time.Second))
	}
}

// Bar draws how much of a span is used up, width cells wide.
func Bar(used, whole time.Duration, width int) string {
	if width <= 0 || whole <= 0 {
		return ""
	}
	const eighths = " ▏▎▍▌▋▊▉█"
	parts := []rune(eighths)
	fill := int(min(max(float64(used)/float64(whole), 0), 1)*float64(width*8) + 0.5)
	bar := make([]rune, width)
	for i := range bar {
		bar[i] = parts[min(max(fill-8*i, 0), 8)]
	}
	return string(bar)
}
