package core

import (
	"hash/fnv"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// SuspectGroup returns how many suspects like this one may run at once in a process, or 0 if the step is no suspect. A
// suspect may be what kills its workers, since its last attempts were lost. The slots keep the groups separate.
func (s *Step) SuspectGroup() int { return judge.SuspectGroup(s.Lost) }

// apart returns how many lost attempts count after one that ends with this failure. The attempt must have been the only
// suspect: then no other suspect can have caused the loss. An attempt after which the heartbeat has other details than
// before has made progress: then none of them counts any longer.
func (s *Step) apart(f *policy.Failure, details []byte) int {
	switch {
	case f.Kind != policy.KindLost:
		return 0
	case excused(f):
		return s.LostAlone
	case details == nil:
		details = s.Details
	}
	switch {
	case hashed(details) != s.resumed:
		return 0
	case s.SuspectGroup() == 1:
		return s.LostAlone + 1
	default:
		return s.LostAlone
	}
}

// hashed returns a hash of heartbeat details; zero if there are none.
func hashed(details []byte) uint64 {
	if len(details) == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(details)
	return h.Sum64()
}
