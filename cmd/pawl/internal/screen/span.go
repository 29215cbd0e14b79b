package screen

import (
	"fmt"
	"strings"
	"time"
)

// For writes a duration for people, three digits of it: 320ms, 4.2s, 42s, 3m10s, 2h05m, 6d23h, and 5m where nothing
// follows.
func For(d time.Duration) string {
	text := digits(d)
	for zero, unit := range map[string]string{".0s": "s", "m00s": "m", "h00m": "h", "d00h": "d"} {
		if whole, ok := strings.CutSuffix(text, zero); ok {
			return whole + unit
		}
	}
	return text
}

// Clock writes a duration that grows as one looks: always with both units, so that it keeps its width.
func Clock(d time.Duration) string { return digits(max(d, 0)) }

func digits(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + digits(-d)
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// Left writes a countdown: rounded up, so that it does not say 0s while there is time, in steps of a tenth of a second
// in the last ten seconds and of a second before.
func Left(d time.Duration) string {
	switch {
	case d <= 0:
		return "0.0s"
	case d <= 10*time.Second:
		tenths := (d + 100*time.Millisecond - 1) / (100 * time.Millisecond)
		return fmt.Sprintf("%d.%ds", tenths/10, tenths%10)
	default:
		return digits((d + time.Second - 1).Truncate(time.Second))
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
