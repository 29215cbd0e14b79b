package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestClockThatJumps(t *testing.T) {
	var out bytes.Buffer
	c := clock{log: slog.New(slog.NewTextHandler(&out, nil)), now: epoch}
	second := time.Second
	for _, step := range []struct {
		what   string
		passed time.Duration
		shown  time.Duration // since the epoch
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
