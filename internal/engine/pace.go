package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

const (
	// restsFor is how many times as long as it has worked the reader of a window rests after a part. So it takes a
	// tenth of the disk's time, and of a core's, at most.
	restsFor = 9
	// longestRest bounds a rest. A clock that is set forward makes runs due that were not read yet, and nothing tells
	// the reader.
	longestRest = time.Second
)

// pace lets the reader of a window rest after each part. One that reads on and on and the collector of garbage have
// both cores of a small machine for tens of milliseconds, and timers that are due then fire late.
//
// A rest makes no run late. There is none in the first window, for which recovery waits. And each ends once the last
// run that was read wakes in a quarter of the window: from then on the reader goes on without rests. A quarter is
// enough for all of it, because windows are four times as long as the last one took to read without its rests. What
// takes longer than that to read, a hundred thousand runs that come due together after a quiet time, may come a second
// late: their own work takes many.
type pace struct {
	off    bool
	clock  clock         // the reader's own, which goes on from that of the loop
	near   time.Duration // the reader does not rest after a run that wakes sooner than this
	began  time.Time     // when the reader began with the part at hand
	rested time.Duration // the sum of all rests
}

// newPace returns the pace of a reader that begins with a window now. If the clock is not the system's, nobody can say
// how far away a run is, so there are no rests.
func newPace(w Window, of clock, now core.Time) *pace {
	return &pace{
		off:   w.From <= 1 || of.source != nil,
		clock: clock{log: slog.New(slog.DiscardHandler), wall: of.wall, now: of.now},
		near:  w.Before.Sub(now) / 4,
		began: time.Now(),
	}
}

// rest rests after a part. It ends at once with an error when the context is done.
func (p *pace) rest(ctx context.Context, part []Loaded) error {
	if p.off {
		return nil
	}
	began := time.Now()
	if d := p.length(began.Sub(p.began), part[len(part)-1].Wake.Sub(p.clock.read())); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.began = time.Now()
	p.rested += p.began.Sub(began)
	return nil
}

// length returns how long to rest after a part that took some time, if its last run wakes after another one.
func (p *pace) length(worked, wakesIn time.Duration) time.Duration {
	return min(restsFor*worked, wakesIn-p.near, longestRest)
}
