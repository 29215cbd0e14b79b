package clock

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

const (
	// stallAfter is how late the loop wakes at least if its process was stopped: by a signal, a suspended machine, or
	// because it got no processor.
	stallAfter = time.Second
	// stallGrace is how long nothing fires after that. What happened meanwhile is reported first: processes that have
	// ended, output that was written, answers that have come. A step that was done in time has not timed out.
	stallGrace = time.Second
)

// Stall detects that the process was stopped.
type Stall struct {
	off   bool      // the clock is not the system's: a test skips time
	Until core.Time // the loop may sleep until then; zero: forever
	hold  core.Time // nothing fires before
	held  bool      // nothing has fired since the last stall, so another one does not hold it longer
}

// NewStall returns a Stall. It notices nothing if it is off, because the clock is not the system's: a test skips time.
func NewStall(off bool) Stall { return Stall{off: off} }

// Woke notes that the loop goes on.
func (s *Stall) Woke(now core.Time) {
	if !s.off && !s.held && s.Until != 0 && now > s.Until.Add(stallAfter) {
		s.hold, s.held = now.Add(stallGrace), true
	}
}

// Holds reports whether nothing fires yet.
func (s *Stall) Holds(now core.Time) bool {
	s.held = s.held && now < s.hold
	return s.held
}

// Postponed returns when a timer that is due at an instant may fire; zero stays zero.
func (s *Stall) Postponed(at core.Time) core.Time {
	if at != 0 && s.held {
		return max(at, s.hold)
	}
	return at
}
