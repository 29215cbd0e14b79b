package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// unheard returns an error where a run must not go on here, because a run that waits for its end is set aside: its
// parent, or the one that asked to be notified. That one could not be told, and nothing would tell it later.
// Example: the command carries on flows, and one of them is the child of a Go function, which only its program
// carries on.
//
// Only a process that refuses a kind asks. tail is what the journal's tail holds while it is replayed, else nil.
func (p *Partition) unheard(created *core.RunCreated, tail map[core.RunID]*tailRun) error {
	if !p.defs.refuses {
		return nil
	}
	if parent := created.Parent.Run; parent != (core.RunID{}) {
		if err := p.hears(parent, tail); err != nil {
			return p.unheardError(err, "its parent %s", parent)
		}
	}
	if created.Notify == "" {
		return nil
	}
	id, ok := named(created.Notify, tail)
	if !ok {
		var err error
		if id, ok, err = p.openRun(created.Notify); err != nil || !ok {
			return err
		}
	}
	if err := p.hears(id, tail); err != nil {
		return p.unheardError(err, "the run %q", created.Notify)
	}
	return nil
}

func (p *Partition) unheardError(err error, format string, waiting any) error {
	if permanent(err) {
		return &unusable{fmt.Errorf(format+" waits for its end, and stands still: %w", waiting, err)}
	}
	return err
}

// hears returns why a run is set aside, or why that cannot be read; nil: it is not, or it is gone.
func (p *Partition) hears(id core.RunID, tail map[core.RunID]*tailRun) error {
	if _, known := p.residents.heard[id]; known || p.residents.runs[id] != nil {
		return nil
	}
	if a := p.residents.aside[id]; a != nil {
		return a
	}
	var created *core.RunCreated
	if t := tail[id]; t != nil {
		created = t.created
	}
	if created == nil {
		h, err := p.cfg.Journal.History(p.ctx, id)
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
	_, err := p.defs.stored(p.ctx, created.Definition)
	if err == nil {
		err = p.unheard(created, tail)
	}
	if err == nil {
		if len(p.residents.heard) >= maxHeard {
			clear(p.residents.heard)
		}
		p.residents.heard[id] = struct{}{}
	}
	return err
}

// maxHeard bounds the runs that are known to be carried on, so that a child that sleeps and wakes does not read its
// parent each time. What is carried on stays so: a run keeps its definition, and its parent.
const maxHeard = 10_000

// named finds the newest run of a workflow id that was created in the tail.
func named(workflowID string, tail map[core.RunID]*tailRun) (id core.RunID, found bool) {
	for run, t := range tail {
		if c := t.created; c != nil && c.WorkflowID == workflowID && (!found || bytes.Compare(run[:], id[:]) > 0) {
			id, found = run, true
		}
	}
	return id, found
}

// createdBy returns the record that created a run; nil: the entries are not its first ones.
func createdBy(entries []core.Entry) *core.RunCreated {
	if len(entries) == 0 || len(entries[0].Records) == 0 {
		return nil
	}
	if created, ok := entries[0].Records[0].(core.RunCreated); ok {
		return &created
	}
	return nil
}
