package engine

import (
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// clock gives instants that never run backwards and never stand still. They are the wall clock's; where that was set
// back, they go on from the last instant by the monotonic clock until the wall has caught up. A wall clock set forward
// is followed at once: deadlines are instants, and what they say has come.
type clock struct {
	source func() core.Time // nil: the system's clocks
	log    *slog.Logger
	wall   time.Time // the last reading, with its monotonic part
	now    core.Time
	skew   time.Duration // how far the wall was from where the monotonic clock had it, when last said
}

// jump is how far the wall may stray from the monotonic clock before the log says so.
const jump = time.Second

func (c *clock) read() core.Time {
	if c.source != nil {
		c.now = max(c.now, c.source())
		return c.now
	}
	wall := time.Now()
	if c.now == 0 {
		c.wall, c.now = wall, policy.At(wall)
		return c.now
	}
	passed := wall.Sub(c.wall) // monotonic
	c.wall = wall
	return c.step(passed, policy.At(wall))
}

// step moves the clock on by what the monotonic clock counted, or to what the wall shows where that is later.
func (c *clock) step(passed time.Duration, shown core.Time) core.Time {
	expected := c.now.Add(passed)
	if skew := shown.Sub(expected); skew > jump || skew < c.skew-jump {
		c.log.Warn("the wall clock was set; time goes on from the later of both", "by", skew.String())
		c.skew = min(skew, 0)
	}
	c.now = max(expected, shown)
	return c.now
}
