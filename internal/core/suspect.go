package core

import (
	"hash/fnv"

	"github.com/pawl-dev/pawl/policy"
)

// Suspect reports whether the step may be what kills its workers: its last attempts were lost. Whoever hands out
// attempts lets suspects run apart, one at a time, so that what is lost then was lost by the step itself.
func (s *Step) Suspect() bool { return policy.Suspect(s.Lost) }

// apart returns how many lost attempts count after one that ends with this failure. The step must have been a suspect,
// so that the attempt ran apart. An attempt after which the details of the heartbeat are others than before it has made
// progress: then none of them counts any more.
func (s *Step) apart(f *policy.Failure, details []byte) int {
	switch {
	case f.Kind != policy.KindLost:
		return 0
	case excused(f):
		return s.Apart
	case details == nil:
		details = s.Details
	}
	switch {
	case hashed(details) != s.resumed:
		return 0
	case s.Suspect():
		return s.Apart + 1
	default:
		return s.Apart
	}
}

// hashed is a hash of heartbeat details; zero of none.
func hashed(details []byte) uint64 {
	if len(details) == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(details)
	return h.Sum64()
}
