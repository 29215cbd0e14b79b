package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// get returns a run. If it is not in memory, the view has all of it, and get loads it.
func (p *Partition) get(id core.RunID) (*run, error) {
	if a := p.residents.aside[id]; a != nil {
		return nil, a
	}
	r := p.residents.runs[id]
	if r == nil {
		if !p.owns(id) {
			return nil, fmt.Errorf("%w: run %s is in partition %d, this is partition %d",
				journal.ErrNotFound, id, p.home(core.PartitionKey(id)), p.cfg.Partition)
		}
		h, err := p.history(id)
		if err != nil {
			return nil, err
		}
		if r, err = p.residents.loadRun(id, h); err != nil {
			return nil, err
		}
		p.residents.evictLater(r)
	}
	if r.unrecovered {
		p.takeOver(r)
	}
	if r.aside != nil {
		return nil, r.aside
	}
	return r, nil
}

// current returns the last run of the chain that an id belongs to.
//
// The first run of a chain may be deleted while the chain goes on. A chain without a workflow id therefore uses the
// id of its first run as workflow id, and is found by it.
func (p *Partition) current(id core.RunID) (*run, error) {
	r, err := p.get(id)
	for err == nil && r.state.Phase.Closed() && r.state.Next != (core.RunID{}) {
		r, err = p.get(r.state.Next)
	}
	if !errors.Is(err, journal.ErrNotFound) {
		return r, err
	}
	open, ok, lookErr := p.residents.openRun(id.String())
	switch {
	case lookErr != nil:
		return nil, lookErr
	case !ok:
		return nil, err
	}
	return p.get(open)
}

// loadRun restores a run from its whole history and puts it into memory.
func (s *residents) loadRun(id core.RunID, h journal.History) (*run, error) {
	r, err := s.restore(id, h.Entries, nil)
	if err != nil {
		if isPanic(err) {
			return nil, s.setAside(id, err)
		}
		return nil, err
	}
	r.rows.forget()
	r.bytes = h.Size
	s.addRestored(r)
	return r, nil
}

// restore makes a run from its entries. tail is the journal's tail while it is replayed, else nil.
func (s *residents) restore(id core.RunID, entries []core.Entry, tail map[core.RunID]*tailRun) (r *run, err error) {
	defer catchPanic("its history was folded", nil, &err)
	if len(entries) == 0 || len(entries[0].Records) == 0 {
		return nil, fmt.Errorf("%w: the history of run %s is empty", journal.ErrCorrupt, id)
	}

	created, ok := entries[0].Records[0].(core.RunCreated)
	if !ok {
		return nil, fmt.Errorf("%w: the history of run %s does not begin with its creation", journal.ErrCorrupt, id)
	}
	w, err := s.defs.stored(s.ctx, created.Definition)
	if err != nil {
		return nil, fmt.Errorf("run %s: its definition %s (%s) cannot be used: %w",
			id, created.Definition, created.Workflow, err)
	}
	if err := s.checkNeeds(w, &created); err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	if err := s.checkWaitingRun(&created, tail); err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	r = &run{state: core.Restore(id, w.def, nil), kind: w.kind}
	for i := range entries {
		if err := r.fold(&entries[i]); err != nil {
			return nil, err
		}
	}
	r.rests = s.rests(r.state)
	return r, nil
}

// onDisk returns a run as it was restored from the tail. If it is not in the tail, the view has all of it.
func (s *residents) onDisk(id core.RunID) (*run, error) {
	if a := s.aside[id]; a != nil {
		return nil, a
	}
	if r := s.runs[id]; r != nil {
		return r, nil
	}
	h, err := s.history(id)
	if err != nil {
		return nil, err
	}
	return s.restore(id, h.Entries, nil)
}

// recover takes over a run that an earlier owner left with attempts. Attempts that are not known to be alive are
// lost; the machine starts others in their place.
func (p *Partition) recover(r *run) {
	if !r.unrecovered {
		return
	}
	r.unrecovered = false
	p.admissions.followQueue(r)
	reached := p.tasks.keepRemote(r) // first: they count even if the run is set aside now
	var offers []core.Effect
	if err := guard("its waiting attempts were listed", func() { offers = r.state.Offers() }); err != nil {
		_ = p.setAsideAfterPanic(r, err)
		return
	}
	for _, e := range offers {
		p.handleEffect(r, e, nil)
	}
	if r.state.Live() > 0 || r.state.WaitsForBody() || r.state.Compensating() {
		_ = p.advance(r, nil, core.Recovered{Alive: p.tasks.alive, Reached: reached})
	}
}

// takeOver recovers a run that was read, unless it rests. A resting run's place in its queue is counted, and so are its
// attempts at remote workers.
func (p *Partition) takeOver(r *run) {
	if r.rests {
		p.admissions.followQueue(r)
		p.tasks.keepRemote(r)
		return
	}
	p.recover(r)
}

// carryAdded carries the runs on whose families were added since it was called last. Those that are not in memory are
// read with the window of what is due.
func (p *Partition) carryAdded() {
	n := p.cfg.Carried.count()
	if n == p.residents.carried {
		return
	}
	p.residents.carried = n
	ids := slices.SortedFunc(maps.Keys(p.residents.runs), func(a, b core.RunID) int {
		return bytes.Compare(a[:], b[:])
	})
	for _, id := range ids {
		r := p.residents.runs[id]
		if r == nil || !r.rests || r.aside != nil || p.residents.rests(r.state) {
			continue
		}
		r.rests = false
		if r.unrecovered = r.unrecovered || r.state.Compensating(); r.unrecovered {
			p.recover(r)
		} else {
			for _, e := range r.state.Offers() {
				p.handleEffect(r, e, nil)
			}
			p.admissions.followQueue(r)
		}
		if r.aside == nil && r.state.WaitsForBody() {
			p.sendAllNews(r) // it does not know what happened while it rested
		}
		p.residents.retime(r)
	}
	p.residents.readAgain()
}

// rests reports whether a run rests.
func (s *residents) rests(r *core.Run) bool {
	return r.Elsewhere() || s.cfg.Carried != nil && !s.cfg.Carried.Has(r.Top())
}

// keepRemote takes over the attempts of a run that remote workers execute since before the engine was opened, once for
// each time that the run is read. Workers of ended attempts whose work was told to stop are told again: the engine that
// did so may have died before. It returns the attempts whose workers can be reached.
//
// The attempts of a run that rests are taken over too: a caller may end them, and then their workers have to learn of
// it before the next ones start.
func (t *tasks) keepRemote(r *run) (reached map[core.Token]bool) {
	kept := r.keptRemote
	r.keptRemote = true
	for _, task := range r.state.RemoteTasks() {
		w := t.matcher.Remote(task.Queue)
		if w == nil {
			continue
		}
		if reached == nil {
			reached = map[core.Token]bool{}
		}
		reached[task.Token] = true
		if !kept {
			t.keep(r, w, task)
		}
	}
	return reached
}

// keep takes over an attempt that remote workers execute.
func (t *tasks) keep(r *run, w *slots.Named, task core.Task) {
	_, known := t.held[task.Token]
	if !known && t.alive[task.Token] {
		return // its end was reported before the storage failed, and is reported again after that
	}
	if !known {
		key := slots.Key{Queue: task.Queue, Type: task.Type, Group: task.Group}
		kept := slots.Slot{Of: w, Key: key, Used: true}
		t.held[task.Token] = hold{slot: kept, dispatched: true, ticket: t.takenBefore(r, task)}
		t.matcher.Keep(key)
	}
	w.Remote.Keep(task)
	if s := &r.state.Steps[task.Token.Step]; s.Stopping {
		why := policy.KindCancelled // an operator has skipped or completed the step
		if s.Failure != nil {
			why = s.Failure.Kind
		}
		w.Remote.Revoke(task.Token, why)
	}
}

// takenBefore counts an attempt that started before the engine was opened in the limits of its queue and service. It
// returns nil if nothing bounds it.
func (t *tasks) takenBefore(r *run, task core.Task) *limit.Ticket {
	bounds := t.bounds(r, task.Token.Step)
	if bounds == nil {
		return nil
	}
	of := &limit.Ticket{Token: task.Token, Client: t.client, Queue: task.Queue, Type: task.Type}
	t.tickets++
	s := &r.state.Steps[task.Token.Step]
	t.matcher.Limiter().Add(of, s.ShareKey(), bounds, core.Held{}, 0, t.now)
	t.matcher.Limiter().TakePlace(of)
	return of
}
