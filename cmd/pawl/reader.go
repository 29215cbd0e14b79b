package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// histories is where runs are read from: an engine, or a database that another process may be writing.
type histories interface {
	Entries(ctx context.Context, id core.RunID) ([]core.Entry, error)
	Watch(ctx context.Context, id core.RunID, fn func(core.Entry) error) error
	List(ctx context.Context, q journal.Query) (journal.Page, error)
	Lookup(ctx context.Context, idOrWorkflowID string) (core.RunID, error)
	Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error)
}

// reader reads a journal without an engine: nothing is started, nothing recovered. What the view does not have yet it
// folds from the journal's tail.
type reader struct{ j journal.Journal }

// pollEvery is how often a run that another process carries is looked at.
const pollEvery = 200 * time.Millisecond

// Entries returns a run's history: what the view has, then what the tail adds. A writer may move batches from the one to the
// other between the two reads; then they are read again.
func (r reader) Entries(ctx context.Context, id core.RunID) ([]core.Entry, error) {
	for {
		h, err := r.j.History(ctx, id)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
		entries := h.Entries
		err = r.j.Tail(ctx, 0, h.Applied, func(_ uint64, batch []core.Entry) error {
			for _, e := range batch {
				if e.Run == id {
					entries = append(entries, e)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		again, err := r.j.History(ctx, id)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
		if again.Applied != h.Applied {
			continue
		}
		if len(entries) == 0 {
			return nil, fmt.Errorf("%w: there is no run %s", journal.ErrNotFound, id)
		}
		return entries, nil
	}
}

// Watch looks at the run again and again until it has ended.
func (r reader) Watch(ctx context.Context, id core.RunID, fn func(core.Entry) error) error {
	seen, ended := 0, false
	for {
		from := clockNow()
		entries, err := r.Entries(ctx, id)
		if err != nil {
			return err
		}
		for ; seen < len(entries); seen++ {
			if err := fn(entries[seen]); err != nil {
				return err
			}
			ended = entries[seen].Ended(ended)
		}
		if ended {
			return nil
		}
		// A long history takes a while to read; it is not to keep a core busy.
		timer := time.NewTimer(max(pollEvery, 5*clockNow().Sub(from)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// List lists runs, those not yet in the view included.
func (r reader) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if q.Limit <= 0 {
		q.Limit = 50
	}
	tail, err := r.tail(ctx) // first: what moves from it to the view meanwhile is met there
	if err != nil {
		return journal.Page{}, err
	}
	page, err := r.j.List(ctx, q)
	if err != nil {
		return page, err
	}
	newer, err := r.newer(ctx, &page, tail, q)
	if err != nil || len(newer) == 0 {
		return page, err
	}
	page.Runs = slices.DeleteFunc(page.Runs, func(row journal.RunRow) bool { _, again := newer[row.ID]; return again })
	for _, row := range newer {
		if selects(q, row) {
			page.Runs = append(page.Runs, row)
		}
	}
	slices.SortFunc(page.Runs, func(a, b journal.RunRow) int { return slices.Compare(b.ID[:], a.ID[:]) })
	if len(page.Runs) > q.Limit {
		page.Runs, page.More = page.Runs[:q.Limit], true
	}
	return page, nil
}

// tailed is what the journal's tail has of a run.
type tailed struct {
	entries []core.Entry
	seqs    []uint64 // of the entries' batches
	ended   bool
}

// since returns the run's entries after a batch.
func (t *tailed) since(seq uint64) []core.Entry {
	n, _ := slices.BinarySearch(t.seqs, seq+1)
	return t.entries[n:]
}

func (r reader) tail(ctx context.Context) (map[core.RunID]*tailed, error) {
	tail := map[core.RunID]*tailed{}
	err := r.j.Tail(ctx, 0, 0, func(seq uint64, batch []core.Entry) error {
		for _, e := range batch {
			t := tail[e.Run]
			if t == nil {
				t = new(tailed)
				tail[e.Run] = t
			}
			t.entries, t.seqs, t.ended = append(t.entries, e), append(t.seqs, seq), e.Ended(t.ended)
		}
		return nil
	})
	return tail, err
}

// newer returns the rows, as the view will have them, of those runs of which the tail knows more than the page's rows say. The
// journal keeps batches for a while after the view has them, so most runs of the tail are none.
func (r reader) newer(ctx context.Context, page *journal.Page, tail map[core.RunID]*tailed, q journal.Query) (map[core.RunID]journal.RunRow, error) {
	var oldest core.RunID // what is older than the page's last row belongs to a later page
	if n := len(page.Runs); page.More && n > 0 {
		oldest = page.Runs[n-1].ID
	}
	applied := make(map[core.RunID]uint64, len(page.Runs))
	for _, row := range page.Runs {
		applied[row.ID] = row.Applied
	}
	open := len(q.Phases) > 0 && !slices.ContainsFunc(q.Phases, core.RunPhase.Closed)
	flows := newShown()
	newer := map[core.RunID]journal.RunRow{}
	for id, t := range tail {
		through, listed := applied[id]
		switch {
		case slices.Compare(id[:], oldest[:]) < 0, q.After != (core.RunID{}) && slices.Compare(id[:], q.After[:]) >= 0:
			continue // of another page
		case listed && len(t.since(through)) == 0, !listed && open && t.ended:
			continue
		}
		h, err := r.j.History(ctx, id)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
		more := t.since(h.Applied)
		if len(more) == 0 {
			continue // the view has all of it
		}
		h.Entries = append(h.Entries, more...)
		if newer[id], err = r.row(ctx, flows, id, h); err != nil {
			return nil, err
		}
	}
	return newer, nil
}

func selects(q journal.Query, row journal.RunRow) bool {
	return (q.Workflow == "" || q.Workflow == row.Workflow) && (q.WorkflowID == "" || q.WorkflowID == row.WorkflowID) &&
		(len(q.Phases) == 0 || slices.Contains(q.Phases, row.Phase))
}

// row makes a run's row of its history.
func (r reader) row(ctx context.Context, flows *shown, id core.RunID, h journal.History) (journal.RunRow, error) {
	created, ok := h.Entries[0].Records[0].(core.RunCreated)
	if !ok {
		return journal.RunRow{}, fmt.Errorf("run %s: its history does not begin with its start", id)
	}
	d, err := r.j.Definition(ctx, created.Definition)
	if err != nil {
		return journal.RunRow{}, fmt.Errorf("run %s: its workflow %q: %w", id, created.Workflow, err)
	}
	c, err := flows.get(d)
	if err != nil {
		return journal.RunRow{}, err
	}
	view, err := engine.Rows(id, 0, c.def, h)
	if err != nil {
		return journal.RunRow{}, fmt.Errorf("run %s: %w", id, err)
	}
	return view.Runs[0], nil
}

// Lookup resolves a run id or a workflow id of an open run.
func (r reader) Lookup(ctx context.Context, name string) (core.RunID, error) {
	if id, err := core.ParseRunID(name); err == nil {
		_, err := r.Entries(ctx, id)
		return id, err
	}
	return r.j.Find(ctx, journal.Lookup{WorkflowID: name})
}

// Definition returns a stored definition.
func (r reader) Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error) {
	return r.j.Definition(ctx, id)
}
