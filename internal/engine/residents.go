package engine

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// residents are the runs in memory, with the indexes that find them and the window of wake times that is in memory.
// Nothing here knows of batches, tasks or callers.
type residents struct {
	runs   map[core.RunID]*run
	aside  map[core.RunID]*aside   // runs that stand still, and why
	heard  map[core.RunID]struct{} // runs that are known not to stand still; see unheard
	byName map[string]core.RunID   // open runs in memory by the workflow id their caller chose
	byKey  map[startKey]core.RunID // runs in memory by workflow and idempotency key
	wakes  wakes

	visited  []*run     // loaded by the input at hand; they may leave again after it
	restored ring[*run] // read at open with attempts that a predecessor gave out; still to be recovered

	window  Window
	reading bool                    // a window is being read
	left    map[core.RunID]struct{} // runs that left memory while it is read
	beyond  core.Time               // the first wake known beyond the window; 0: none
}

// forget empties the memory.
func (s *residents) forget() {
	*s = residents{
		runs: make(map[core.RunID]*run), aside: make(map[core.RunID]*aside),
		heard:  make(map[core.RunID]struct{}),
		byName: make(map[string]core.RunID), byKey: make(map[startKey]core.RunID),
		window: Window{gen: s.window.gen + 1},
	}
}

// create puts a new run into memory.
func (s *residents) create(id core.RunID, kind *Kind) *run {
	r := &run{state: core.NewRun(id), kind: kind}
	s.runs[id] = r
	return r
}

// enter puts a restored run into memory. One that was active is a predecessor's: this partition keeps its own active
// runs in memory.
func (s *residents) enter(r *run) {
	s.runs[r.id()] = r
	s.name(r)
	s.retime(r)
	r.lost = r.state.Active()
	r.noteRecorded()
}

// retime puts the run where its wake time belongs.
func (s *residents) retime(r *run) {
	if r.state.Phase.Closed() {
		s.wakes.set(r, 0)
		return
	}
	s.wakes.set(r, r.state.Wake())
}

// name makes an open run findable by the names its caller chose.
func (s *residents) name(r *run) {
	st := r.state
	if st.WorkflowID != "" && !st.Phase.Closed() {
		s.byName[st.WorkflowID] = st.ID
	}
	if st.Key != "" && st.Next == (core.RunID{}) { // the key goes with the chain
		s.byKey[startKey{st.Workflow, st.Key}] = st.ID
	}
}

// unname forgets a run's names: the workflow id when it ends, both when it leaves memory.
func (s *residents) unname(r *run, leaves bool) {
	st := r.state
	if st.WorkflowID != "" && s.byName[st.WorkflowID] == st.ID {
		delete(s.byName, st.WorkflowID)
	}
	if key := (startKey{st.Workflow, st.Key}); leaves && st.Key != "" && s.byKey[key] == st.ID {
		delete(s.byKey, key)
	}
}

// visit notes a run that was loaded for the input at hand.
func (s *residents) visit(r *run) { s.visited = append(s.visited, r) }

// endVisits lets the runs go that were loaded for one input and need no memory after it.
func (s *residents) endVisits() {
	for i, r := range s.visited {
		s.evict(r)
		s.visited[i] = nil
	}
	s.visited = s.visited[:0]
}

// evict drops a run from memory if the view knows all of it and nothing is due soon.
func (s *residents) evict(r *run) {
	// Work that still stops belongs to its run also after the run's end: a retry has to know of it.
	if !r.clean() || r.lost || s.runs[r.id()] != r || (r.aside == nil && r.state.Live() > 0) {
		return
	}
	if r.aside == nil && !r.state.Phase.Closed() {
		if r.state.Active() || (r.wake != 0 && r.wake < s.window.Before) {
			return
		}
		if r.wake != 0 {
			s.beyond = earliest(s.beyond, r.wake)
		}
	}
	s.drop(r)
}

// drop takes a run out of memory.
func (s *residents) drop(r *run) {
	if s.reading {
		s.left[r.id()] = struct{}{}
	}
	s.wakes.remove(r)
	s.unname(r, true)
	delete(s.runs, r.id())
}

// get returns a run, loading it where it is not in memory. What is not in memory is in the view, up to its last entry.
func (p *Partition) get(id core.RunID) (*run, error) {
	if a := p.residents.aside[id]; a != nil {
		return nil, a
	}
	r := p.residents.runs[id]
	if r == nil {
		if !p.owns(id) {
			return nil, fmt.Errorf("%w: run %s is in partition %d, this is partition %d", journal.ErrNotFound, id,
				p.mail.home(core.PartitionKey(id)), p.cfg.Partition)
		}
		h, err := p.cfg.Journal.History(p.ctx, id)
		if err != nil {
			return nil, err
		}
		if r, err = p.adopt(id, h.Entries); err != nil {
			return nil, err
		}
		p.residents.visit(r)
	}
	if r.lost {
		p.recover(r)
	}
	if r.aside != nil {
		return nil, r.aside
	}
	return r, nil
}

// adopt restores a run from its whole history and puts it into memory.
func (p *Partition) adopt(id core.RunID, entries []core.Entry) (*run, error) {
	r, err := p.restore(id, entries, nil)
	if err != nil {
		if bug := (*panicked)(nil); errors.As(err, &bug) {
			return nil, p.setAside(id, err)
		}
		return nil, err
	}
	r.rows.forget()
	p.residents.enter(r)
	return r, nil
}

// restore folds entries into a run. tail is what the journal's tail holds while it is replayed, else nil.
func (p *Partition) restore(id core.RunID, entries []core.Entry, tail map[core.RunID]*tailRun) (r *run, err error) {
	defer caught("its history was folded", nil, &err)
	if len(entries) == 0 || len(entries[0].Records) == 0 {
		return nil, fmt.Errorf("%w: run %s has no beginning", journal.ErrCorrupt, id)
	}
	created, ok := entries[0].Records[0].(core.RunCreated)
	if !ok {
		return nil, fmt.Errorf("%w: run %s does not begin with its creation", journal.ErrCorrupt, id)
	}
	w, err := p.defs.stored(p.ctx, created.Definition)
	if err != nil {
		return nil, fmt.Errorf("run %s: its definition %s (%s) cannot be used: %w", id, created.Definition, created.Workflow, err)
	}
	if err := p.unheard(&created, tail); err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	r = &run{state: core.Restore(id, w.def, nil), kind: w.kind}
	for i := range entries {
		if err := r.fold(&entries[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// recover takes over a run whose attempts a predecessor gave out: those that are not known to go on are lost, and tried
// again at once.
func (p *Partition) recover(r *run) {
	if !r.lost {
		return
	}
	r.lost = false
	var offers []core.Effect
	if err := guard("its waiting attempts were listed", func() { offers = r.state.Offers() }); err != nil {
		_ = p.stop(r, err)
		return
	}
	for _, e := range offers {
		p.effect(r, e, nil)
	}
	if r.state.Live() > 0 || r.state.WaitsForBody() {
		_ = p.advance(r, nil, core.Recovered{Alive: p.tasks.alive})
	}
}
