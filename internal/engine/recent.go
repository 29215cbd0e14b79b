package engine

import "github.com/pawl-dev/pawl/internal/core"

// recent keeps the outcomes of the runs that succeeded and left memory last. Whoever starts a run usually asks for its
// result next, and a short run has then left memory already. Without these, that question is a read of the journal.
type recent struct {
	outcomes map[core.RunID]Outcome
	order    []core.RunID // a ring once it is full: then the oldest one is replaced
	next     int
}

const (
	mostRecent   = 1024    // how many outcomes are kept
	recentOutput = 1 << 10 // the largest output in bytes that is kept
)

// left notes that a run leaves memory.
func (k *recent) left(s *core.Run) {
	if s.Phase != core.RunSucceeded || s.Next != (core.RunID{}) || len(s.Output) > recentOutput {
		delete(k.outcomes, s.ID) // it may have ended otherwise since it left memory last
		return
	}
	if k.outcomes == nil {
		k.outcomes = make(map[core.RunID]Outcome)
	}
	if _, known := k.outcomes[s.ID]; !known {
		k.makeRoom(s.ID)
	}
	k.outcomes[s.ID] = outcomeOf(s)
}

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

// Pruned says that runs may have been removed from the journal.
func (p *Partition) Pruned() { p.residents.recent.forget() }
