package trail

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/core"
)

// Instant writes an instant as JSON does: RFC 3339 in UTC, "" where there is none.
func Instant(at core.Time) string {
	if at == 0 {
		return ""
	}
	return at.String()
}

// Count writes an attempt's number with how many there may be. Lost attempts and those before an operator's retry do not use
// up the budget, so the number may be the larger one.
func Count(s *core.Step, number int) string {
	limit := Max(s)
	if limit == 0 || number > limit {
		return fmt.Sprint(number)
	}
	return fmt.Sprintf("%d/%d", number, limit)
}

// Plain is an event as one line. Its columns are a contract: seconds since the run was created, type, step, text.
func Plain(e core.Event) string {
	step := screen.Clean(e.Step)
	if step == "" {
		step = "-"
	}
	ms := e.Offset / time.Millisecond
	line := fmt.Sprintf("%6d.%03ds  %s  %s  %s", ms/1000, ms%1000, screen.Pad(e.Type, 20), screen.Pad(step, 16), screen.Clean(e.Text()))
	return screen.T(line).String()
}
