package engine

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

const (
	// stallAfter is how late the loop wakes at least if its process stood still: it was stopped by a signal, its
	// machine was suspended, or it got no processor.
	stallAfter = time.Second
	// stallGrace is how long nothing fires after that. What happened meanwhile is reported first: processes that have
	// ended, output that was written, answers that have come. A step that was done in time has not timed out.
	stallGrace = time.Second
)

// stall notices that the process stood still.
type stall struct {
	off   bool      // the clock is not the system's: a test skips time
	until core.Time // the loop may sleep until then; zero: for ever
	hold  core.Time // nothing fires before
	held  bool      // nothing has fired since the last stall, so another one does not hold it longer
}

// woke notes that the loop goes on.
func (s *stall) woke(now core.Time) {
	if !s.off && !s.held && s.until != 0 && now > s.until.Add(stallAfter) {
		s.hold, s.held = now.Add(stallGrace), true
	}
}

// holds reports whether nothing fires yet.
func (s *stall) holds(now core.Time) bool {
	s.held = s.held && now < s.hold
	return s.held
}

// postponed returns when what is due at an instant may fire; zero stays zero.
func (s *stall) postponed(at core.Time) core.Time {
	if at != 0 && s.held {
		return max(at, s.hold)
	}
	return at
}
