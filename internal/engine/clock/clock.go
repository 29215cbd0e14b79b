// Package clock gives the loop of a partition the time. A [Clock] never goes back. An [Alarm] rings more exactly than
// Go's timers. A [Stall] detects that the process was stopped, and a [Tenure] determines how long an owner may go on.
package clock

import (
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Clock returns instants that never go back. They follow the wall clock. If somebody sets the wall clock back, the
// instants go on with the monotonic clock until the wall clock has caught up. If somebody sets the wall clock forward,
// the clock follows at once, because deadlines are instants of the wall clock.
type Clock struct {
	source func() core.Time // nil: the clocks of the system
	log    *slog.Logger
	wall   time.Time // the last reading, with its monotonic part
	now    core.Time
	skew   time.Duration // the last difference between wall clock and instants that was logged; never above 0
}

// New returns a clock that logs when the wall clock is set. If source is not nil, it gives the time instead of the
// clocks of the system.
func New(source func() core.Time, log *slog.Logger) Clock { return Clock{source: source, log: log} }

// Fork returns a clock for another goroutine, which goes on from this one and logs nothing.
func (c *Clock) Fork() Clock {
	return Clock{source: c.source, log: slog.New(slog.DiscardHandler), wall: c.wall, now: c.now}
}

// Real reports whether the time comes from the clocks of the system.
func (c *Clock) Real() bool { return c.source == nil }

// Wall returns the last reading of the wall clock, with its monotonic part.
func (c *Clock) Wall() time.Time { return c.wall }

// maxSkew is the largest difference between wall clock and monotonic clock that is not logged.
const maxSkew = time.Second

// Read returns the current instant.
func (c *Clock) Read() core.Time {
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

// step moves the clock forward by the time that has passed on the monotonic clock, or to the wall clock if that is
// later.
func (c *Clock) step(passed time.Duration, wall core.Time) core.Time {
	expected := c.now.Add(passed)
	if skew := wall.Sub(expected); skew > maxSkew || skew < c.skew-maxSkew {
		c.log.Warn("the wall clock was changed; time goes on and does not go back", "by", skew.String())
		c.skew = min(skew, 0)
	}
	c.now = max(expected, wall)
	return c.now
}
