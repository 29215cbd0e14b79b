package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// checkWaitingRun returns an error if a run must be set aside because the run that waits for its end is set aside. The
// waiting run is its parent, or the run that its start asked to notify. If the run ended now, the waiting run would
// never learn it.
//
// Example: the command pawl runs flows. A flow is the child of a Go function, which only its own program can run. So
// the command sets the flow aside as well.
//
// Only a process that refuses a kind of workflow checks this. tail is what the journal's tail holds of each run while
// it is replayed, else nil.
func (s *residents) checkWaitingRun(created *core.RunCreated, tail map[core.RunID]*tailRun) error {
	if !s.defs.refuses {
		return nil
	}
	if parent := created.Parent.Run; parent != (core.RunID{}) {
		if err := s.checkRunsHere(parent, tail); err != nil {
			return waitingRunError(err, "its parent %s", parent)
		}
	}
	if created.Notify == "" {
		return nil
	}
	id, ok := newestNamed(created.Notify, tail)
	if !ok {
		var err error
		if id, ok, err = s.openRun(created.Notify); err != nil || !ok {
			return err
		}
	}
	if err := s.checkRunsHere(id, tail); err != nil {
		return waitingRunError(err, "the run %q", created.Notify)
	}
	return nil
}

// checkNeeds returns an error if a run must be set aside because it starts runs of a workflow that this process must
// not run. They would be refused here, and a schedule would miss its firings, although its own program could start
// them.
func (s *residents) checkNeeds(w *workflow, created *core.RunCreated) error {
	if !s.defs.refuses || w.kind.Needs == nil {
		return nil
	}
	id, ok := w.kind.Needs(created.Input)
	if !ok {
		return nil
	}
	_, err := s.defs.stored(s.ctx, id)
	return err
}

func waitingRunError(err error, format string, waiting any) error {
	if permanent(err) {
		return &unusable{fmt.Errorf(format+" waits for its end, but is set aside: %w", waiting, err)}
	}
	return err
}

// checkRunsHere returns the reason why a run is set aside, or the error that prevented the check. It returns nil if the
// run is not set aside or no longer exists.
func (s *residents) checkRunsHere(id core.RunID, tail map[core.RunID]*tailRun) error {
	if _, known := s.runsHere[id]; known || s.runs[id] != nil {
		return nil
	}
	if a := s.aside[id]; a != nil {
		return a
	}
	var created *core.RunCreated
	if t := tail[id]; t != nil {
		created = t.created
	}
	if created == nil {
		h, err := s.history(id)
		if errors.Is(err, journal.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if created = createdBy(h.Entries); created == nil {
			return nil
		}
	}
	_, err := s.defs.stored(s.ctx, created.Definition)
	if err == nil {
		err = s.checkWaitingRun(created, tail)
	}
	if err == nil {
		if len(s.runsHere) >= maxRunsHere {
			clear(s.runsHere)
		}
		s.runsHere[id] = struct{}{}
	}
	return err
}

// maxRunsHere bounds residents.runsHere. That set remembers the result of checkRunsHere, so that a child that sleeps
// and wakes does not read its parent's history each time. The result stays true, because a run keeps its definition and
// its parent.
const maxRunsHere = 10_000

// newestNamed finds the newest run with a workflow id that was created in the tail.
func newestNamed(workflowID string, tail map[core.RunID]*tailRun) (id core.RunID, found bool) {
	for run, t := range tail {
		if c := t.created; c != nil && c.WorkflowID == workflowID && (!found || bytes.Compare(run[:], id[:]) > 0) {
			id, found = run, true
		}
	}
	return id, found
}

// createdBy returns the record that created a run. It returns nil if the entries do not begin with the run's first one.
func createdBy(entries []core.Entry) *core.RunCreated {
	if len(entries) == 0 || len(entries[0].Records) == 0 {
		return nil
	}
	if created, ok := entries[0].Records[0].(core.RunCreated); ok {
		return &created
	}
	return nil
}

// tailRun is what the tail has of one run.
type tailRun struct {
	id      core.RunID
	created *core.RunCreated // nil if it was created before the tail
	entries []core.Entry
	seqs    []uint64 // the batch of each entry
}
