package limit

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// starts are the instants of starts under a rate, for as long as the rate counts them. They never run backwards.
type starts struct {
	at   []core.Time
	from int // the first one that may still count
}

// count returns how many started within the rate's time before now.
func (s *starts) count(r policy.Rate, now core.Time) int {
	for s.from < len(s.at) && s.at[s.from].Add(r.Per) <= now {
		s.from++
	}
	if s.from > 64 && s.from > len(s.at)/2 {
		s.at = append(s.at[:0], s.at[s.from:]...)
		s.from = 0
	}
	return len(s.at) - s.from
}

// full reports whether the rate is used up if that many are about to start; until is when it no longer is, zero if that
// depends on those alone.
func (s *starts) full(r policy.Rate, about int, now core.Time) (until core.Time, full bool) {
	if r.N == 0 {
		return 0, false
	}
	n := s.count(r, now)
	if n+about < r.N {
		return 0, false
	}
	if about >= r.N {
		return 0, true
	}
	// So many of the oldest must be too old that one more fits. The limit may have become smaller than the number of
	// starts.
	last := s.at[s.from+n+about-r.N]
	return last.Add(r.Per), true
}

// add notes a start, where there is a rate.
func (s *starts) add(r policy.Rate, now core.Time) {
	if r.N > 0 {
		s.at = append(s.at, now)
	} else if len(s.at) > 0 {
		*s = starts{}
	}
}

// undo forgets the last start, which did not happen.
func (s *starts) undo(r policy.Rate) {
	if n := len(s.at); r.N > 0 && n > s.from {
		s.at = s.at[:n-1]
	}
}
