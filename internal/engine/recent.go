package engine

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

// recent keeps the outcomes of the runs that succeeded and left memory last. The caller that starts a run usually asks
// for its result next, and a short run has then left memory already. Without these, that question is a read of the
// journal.
type recent struct {
	outcomes map[core.RunID]recentOutcome
	order    []core.RunID // a ring once it is full: then the oldest one is replaced
	next     int
}

type recentOutcome struct {
	Outcome
	endedAt core.Time
}

const (
	mostRecent   = 1024    // how many outcomes are kept
	recentOutput = 1 << 10 // the largest output in bytes that is kept
	// recentAge is how long after the end of a run its outcome counts. Others than the loop may remove old runs from
	// the journal.
	recentAge = 10 * time.Second
)

// of returns the outcome of a run that ended a moment ago.
func (k *recent) of(id core.RunID, now core.Time) (Outcome, bool) {
	out, ok := k.outcomes[id]
	return out.Outcome, ok && now < out.endedAt.Add(recentAge)
}

// left notes that a run leaves memory.
func (k *recent) left(s *core.Run) {
	if s.Phase != core.RunSucceeded || s.Next != (core.RunID{}) || len(s.Output) > recentOutput {
		delete(k.outcomes, s.ID) // it may have ended otherwise since it left memory last
		return
	}
	if k.outcomes == nil {
		k.outcomes = make(map[core.RunID]recentOutcome)
	}
	if _, known := k.outcomes[s.ID]; !known {
		k.makeRoom(s.ID)
	}
	k.outcomes[s.ID] = recentOutcome{outcomeOf(s), s.EndedAt}
}

// remove drops the outcome of a run.
func (k *recent) remove(id core.RunID) { delete(k.outcomes, id) }

func (k *recent) makeRoom(id core.RunID) {
	if len(k.order) < mostRecent {
		k.order = append(k.order, id)
		return
	}
	delete(k.outcomes, k.order[k.next])
	k.order[k.next] = id
	k.next = (k.next + 1) % mostRecent
}

// forget drops all outcomes.
func (k *recent) forget() { *k = recent{} }
