//go:build gc && !purego && (amd64 || arm64)

package body

import "sync/atomic"

// self tells the goroutine of a branch from others: by the address of what the runtime keeps of it, which stays where
// it is as long as the goroutine lives. Asking costs a nanosecond, so every call is looked at.
type self struct{ address atomic.Uintptr }

// looks is needed where looking is expensive.
type looks struct{}

// goroutineAddress returns that address of the calling goroutine.
func goroutineAddress() uintptr

// begin notes the calling goroutine.
func (s *self) begin() { s.address.Store(goroutineAddress()) }

// end notes that the goroutine is the branch's no longer.
func (s *self) end() { s.address.Store(1) }

// is reports whether the calling goroutine is the one that was noted, or none was noted yet.
func (s *self) is(*looks) bool {
	a := s.address.Load()
	return a == 0 || a == goroutineAddress()
}
