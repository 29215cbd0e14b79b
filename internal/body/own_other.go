//go:build !gc || purego || !(amd64 || arm64)

package body

import "sync/atomic"

// self tells the goroutine of a branch from others, by its number.
type self struct{ number atomic.Value }

// looks counts how often it was asked in a host. To look which goroutine calls takes microseconds here. So the first
// calls are looked at, as those of a test are, and then one of so many: code that calls from another goroutine does so
// again and again.
type looks struct{ calls atomic.Uint64 }

const (
	looksAtFirst = 1000
	looksAtOneOf = 256
)

// begin notes the calling goroutine.
func (s *self) begin() { s.number.Store(goroutineID()) }

// end notes that the goroutine is the branch's no longer.
func (s *self) end() { s.number.Store("none") }

// is reports whether the calling goroutine is the one that was noted, or none was noted yet. It may report true without
// looking.
func (s *self) is(l *looks) bool {
	if n := l.calls.Add(1); n > looksAtFirst && n%looksAtOneOf != 0 {
		return true
	}
	number, begun := s.number.Load().(string)
	return !begun || number == goroutineID()
}
