package clock

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

const epoch = core.Time(1_700_000_000_000_000)

// TestClockSteps checks that the instants follow a wall clock that is set forward, and do not go back with one that is
// set back.
func TestClockSteps(t *testing.T) {
	var out bytes.Buffer
	c := Clock{log: slog.New(slog.NewTextHandler(&out, nil)), now: epoch}
	second := time.Second
	for _, step := range []struct {
		what   string
		passed time.Duration
		shown  time.Duration // the time since the epoch
		want   time.Duration
		warns  int
	}{
		{"goes on", second, second, second, 0},
		{"drifts a little", second, 2*second - time.Millisecond, 2 * second, 0},
		{"is set forward", second, time.Hour, time.Hour, 1},
		{"goes on from there", second, time.Hour + second, time.Hour + second, 1},
		{"is set back", second, 10 * second, time.Hour + 2*second, 2},
		{"stays behind", time.Minute, 70 * second, time.Hour + 62*second, 2},
		{"catches up", second, 2 * time.Hour, 2 * time.Hour, 3},
	} {
		got := c.step(step.passed, epoch.Add(step.shown))
		if got != epoch.Add(step.want) {
			t.Errorf("%s: %s, want %s", step.what, got.Sub(epoch), step.want)
		}
		if n := strings.Count(out.String(), "wall clock"); n != step.warns {
			t.Errorf("%s: %d warnings, want %d", step.what, n, step.warns)
		}
	}
}
