package engine

import (
	"bytes"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/policy"
)

// clock returns instants that never go back. They follow the wall clock. If somebody sets the wall clock back, the
// instants go on with the monotonic clock until the wall clock has caught up. If somebody sets the wall clock forward,
// the clock follows at once, because deadlines are instants of the wall clock.
type clock struct {
	source func() core.Time // nil: the clocks of the system
	log    *slog.Logger
	wall   time.Time // the last reading, with its monotonic part
	now    core.Time
	skew   time.Duration // the last difference between wall clock and instants that was logged; never above 0
}

// maxSkew is the largest difference between wall clock and monotonic clock that is not logged.
const maxSkew = time.Second

// read returns the current instant.
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

// step moves the clock forward by the time that has passed on the monotonic clock, or to the wall clock if that is
// later.
func (c *clock) step(passed time.Duration, wall core.Time) core.Time {
	expected := c.now.Add(passed)
	if skew := wall.Sub(expected); skew > maxSkew || skew < c.skew-maxSkew {
		c.log.Warn("the wall clock was changed; time goes on and does not go back", "by", skew.String())
		c.skew = min(skew, 0)
	}
	c.now = max(expected, wall)
	return c.now
}

// wakes orders the runs in memory by wake time. Runs with the same wake time are ordered by id, so that the same
// calls always give the same order.
type wakes struct{ heap heap.Heap[*run] }

// Before orders runs by wake time.
func (r *run) Before(o *run) bool {
	if r.wake != o.wake {
		return r.wake < o.wake
	}
	return bytes.Compare(r.state.ID[:], o.state.ID[:]) < 0
}

// Moved notes the run's place in the heap.
func (r *run) Moved(to int) { r.place = to }

// set gives the run a wake time. Zero removes the run.
func (w *wakes) set(r *run, at core.Time) {
	switch {
	case r.wake == at:
	case at == 0:
		w.remove(r)
	case r.wake == 0:
		r.wake = at
		w.heap.Push(r)
	default:
		r.wake = at
		w.heap.Fix(r.place)
	}
}

// first returns the run with the earliest wake time; nil: there is none.
func (w *wakes) first() *run {
	if w.heap.Len() == 0 {
		return nil
	}
	return w.heap.First()
}

// next returns the earliest wake time; zero: there is none.
func (w *wakes) next() core.Time {
	if r := w.first(); r != nil {
		return r.wake
	}
	return 0
}

func (w *wakes) remove(r *run) {
	if r.wake != 0 {
		w.heap.Remove(r.place)
		r.wake = 0
	}
}
