package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// get returns a run, loading it where it is not in memory. What is not in memory is in the view, up to its last entry.
func (p *Partition) get(id core.RunID) (*run, error) {
	r := p.runs[id]
	if r == nil {
		if err := p.broken[id]; err != nil {
			return nil, err
		}
		h, err := p.cfg.Journal.History(p.ctx, id)
		if err != nil {
			return nil, err
		}
		if r, err = p.adopt(id, h.Entries); err != nil {
			return nil, err
		}
		p.visited = append(p.visited, r)
	}
	if r.lost {
		p.recover(r)
	}
	return r, nil
}

// missed reports whether a run that something happens to could not be read just now. Then nothing of the batch is saved, which would
// lack it, and all of it happens again when the journal can be read.
func (p *Partition) missed(err error) bool {
	var broken *unusable
	if err == nil || errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrCorrupt) || errors.As(err, &broken) {
		return false
	}
	if p.unread == nil {
		p.unread = err
	}
	return true
}

// lacks reports whether a run that something happens to could not be read. One that never can be stays as it is, the log says
// so, and the rest goes on.
func (p *Partition) lacks(err error, what string, about ...any) bool {
	if err != nil && !p.missed(err) {
		p.cfg.Log.Error(what, append(about, "error", err)...)
	}
	return err != nil
}

// Unread returns why what is computed must not be saved: the driver calls Failed with it as soon as nothing is under way to the
// journal. nil: it may be.
func (p *Partition) Unread() error { return p.unread }

// adopt restores a run from its whole history and puts it into memory.
func (p *Partition) adopt(id core.RunID, entries []core.Entry) (*run, error) {
	r, err := p.restore(id, entries, nil)
	if err != nil {
		return nil, err
	}
	r.rows.forget()
	p.enter(r)
	return r, nil
}

// unusable is the error of a run whose definition cannot be compiled, by this version or in this process.
type unusable struct{ error }

func (u *unusable) Unwrap() error { return u.error }

// restore folds entries into a run. tail is what the journal's tail holds while it is replayed, else nil.
func (p *Partition) restore(id core.RunID, entries []core.Entry, tail map[core.RunID]*tailRun) (*run, error) {
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
	r := &run{state: core.Restore(id, w.def, nil), kind: w.kind}
	for i := range entries {
		r.state.Fold(entries[i])
		r.rows.note(r.state, &entries[i])
	}
	return r, nil
}

// enter puts a restored run into memory. One that was active is a predecessor's: this partition keeps its own active
// runs in memory.
func (p *Partition) enter(r *run) {
	p.runs[r.id()] = r
	p.name(r)
	p.retime(r)
	r.lost = r.state.Active()
}

// recover takes over a run whose attempts a predecessor gave out: those that are not known to go on are lost, and tried
// again at once.
func (p *Partition) recover(r *run) {
	if !r.lost {
		return
	}
	r.lost = false
	for _, e := range r.state.Offers() {
		p.effect(r, e)
	}
	if r.state.Live() > 0 || r.state.Owed() {
		_ = p.advance(r, nil, core.Recovered{Alive: p.alive})
	}
}

// Window is a span of wake times whose runs are to be in memory. Runs that wake within it are not evicted.
type Window struct {
	From, Before core.Time
	gen          uint64 // tells a window from those of a memory that was forgotten
}

// Loaded is a run that was read because it comes due.
type Loaded struct {
	Run     core.RunID
	History journal.History
}

// windowDue returns when the next window is to be read. Where nothing is known to wake for long, nothing is read for
// long; the first window, which also finds the runs that were active when a predecessor stopped, is read at once.
func (p *Partition) windowDue() core.Time {
	half := p.cfg.Horizon / 2
	switch {
	case p.window.Before == 0:
		return p.now
	case p.far == 0:
		return 0
	default:
		return max(p.window.Before, p.far).Add(-half)
	}
}

// Window returns the next window to be read, if it is time. WindowDone follows, with Loaded calls before it.
func (p *Partition) Window(now core.Time) (Window, bool) {
	p.at(now)
	if p.reading {
		return Window{}, false
	}
	if due := p.windowDue(); due == 0 || due > p.now {
		return Window{}, false
	}
	p.reading, p.gone, p.far = true, make(map[core.RunID]struct{}), 0
	p.window = Window{From: max(p.window.Before, 1), Before: p.now.Add(p.cfg.Horizon), gen: p.window.gen}
	return p.window, true
}

// Loaded takes runs in. What was read may be old by now: a run that is in memory, or was meanwhile, is left as it is.
func (p *Partition) Loaded(w Window, runs []Loaded, now core.Time) {
	p.at(now)
	if w.gen != p.window.gen || !p.reading {
		return
	}
	for i := range runs {
		id := runs[i].Run
		if _, gone := p.gone[id]; gone || p.runs[id] != nil || p.broken[id] != nil {
			continue
		}
		r, err := p.adopt(id, runs[i].History.Entries)
		if p.lacks(err, "a run cannot be loaded and stays where it is", "run", id.String()) {
			continue
		}
		p.recover(r)
		p.visited = append(p.visited, r)
		p.settle()
	}
}

// WindowDone ends the reading of a window. far is the first wake beyond it, zero where there is none. After an error the
// window is read again.
func (p *Partition) WindowDone(w Window, far core.Time, err error) {
	if w.gen != p.window.gen || !p.reading {
		return
	}
	p.reading, p.gone = false, nil
	p.far = earliest(p.far, far)
	if err == nil {
		return
	}
	p.cfg.Log.Error("runs that come due cannot be read, trying again", "error", err)
	p.window.Before = max(w.From, 1)
	p.far = p.now.Add(p.cfg.Horizon) // soon, not at once
}

// Sizes of what ReadWindow reads and hands over in one piece.
const (
	duePage    = 1024
	loadedPage = 64
)

// ReadWindow reads the runs of a window from a journal and hands them to fn, in wake order. It returns the first wake
// beyond the window. It does not touch the partition and may run beside it.
func ReadWindow(ctx context.Context, j journal.Journal, partition int, w Window, fn func([]Loaded) error) (core.Time, error) {
	from, limit := w.From, duePage
	var seen map[core.RunID]bool // of the page before, at its last wake time
	for {
		page, err := j.Due(ctx, partition, from, w.Before, limit)
		if err != nil {
			return 0, err
		}
		if err := readRuns(ctx, j, page, seen, fn); err != nil {
			return 0, err
		}
		if len(page) < limit {
			break
		}
		last := page[len(page)-1].Wake
		if last == from && page[0].Wake == from {
			limit *= 2 // all of one instant: only a larger page shows more
		}
		seen = make(map[core.RunID]bool)
		for _, d := range page {
			if d.Wake == last {
				seen[d.Run] = true
			}
		}
		from = last
	}
	next, err := j.Due(ctx, partition, w.Before, core.Time(1<<63-1), 1)
	if err != nil || len(next) == 0 {
		return 0, err
	}
	return next[0].Wake, nil
}

func readRuns(ctx context.Context, j journal.Journal, page []journal.Due, seen map[core.RunID]bool, fn func([]Loaded) error) error {
	var out []Loaded
	for i, d := range page {
		if !seen[d.Run] {
			h, err := j.History(ctx, d.Run)
			switch {
			case errors.Is(err, journal.ErrNotFound): // it went while we read
			case err != nil:
				return err
			default:
				out = append(out, Loaded{d.Run, h})
			}
		}
		if len(out) == loadedPage || (i == len(page)-1 && len(out) > 0) {
			if err := fn(out); err != nil {
				return err
			}
			out = nil
		}
	}
	return nil
}

// Refill reads the next window, if it is time, in one go.
func (p *Partition) Refill(now core.Time) {
	w, ok := p.Window(now)
	if !ok {
		return
	}
	far, err := ReadWindow(p.ctx, p.cfg.Journal, p.cfg.Partition, w, func(runs []Loaded) error {
		p.Loaded(w, runs, now)
		return nil
	})
	p.WindowDone(w, far, err)
}
