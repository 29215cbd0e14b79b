package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// tailed is a run's data in the journal's tail.
type tailed struct {
	partition int
	entries   []core.Entry
	seqs      []uint64 // the sequences of the entries' batches
	ended     bool
}

// since returns the run's entries after a batch.
func (t *tailed) since(seq uint64) []core.Entry {
	n, _ := slices.BinarySearch(t.seqs, seq+1)
	return t.entries[n:]
}

// List lists runs. It includes those that are not in the view yet.
func (r *reader) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if q.Limit <= 0 {
		q.Limit = journal.DefaultLimit
	}
	// The tail comes before the view: an entry that moves to the view meanwhile is then seen twice, not never.
	tail, err := r.tail(ctx)
	if err != nil {
		return journal.Page{}, err
	}
	page, err := r.j.List(ctx, q)
	if err != nil {
		return page, err
	}
	if q.Stuck {
		return page, nil // only the process that set a run aside could report it, and it has written that into the view
	}
	var last *journal.RunRow // runs after the page's last row belong on a later page
	if n := len(page.Runs); page.More && n > 0 {
		last = new(page.Runs[n-1])
	}
	newer, err := r.newer(ctx, &page, last, tail, q)
	if err != nil || len(newer) == 0 {
		return page, err
	}
	page.Runs = slices.DeleteFunc(page.Runs, func(row journal.RunRow) bool { _, again := newer[row.ID]; return again })
	for _, row := range newer {
		if q.Selects(&row) && q.Follows(&row) && (last == nil || q.Order(row, *last) < 0) {
			page.Runs = append(page.Runs, row)
		}
	}
	slices.SortFunc(page.Runs, q.Order)
	if len(page.Runs) > q.Limit {
		page.Runs, page.More = page.Runs[:q.Limit], true
	}
	return page, nil
}

// tail reads the tails of all partitions. A tail begins where the view ends.
func (r *reader) tail(ctx context.Context) (map[core.RunID]*tailed, error) {
	tail := map[core.RunID]*tailed{}
	spans, err := r.j.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, span := range spans {
		err := r.j.Tail(ctx, span.Partition, span.Through, func(seq uint64, batch []core.Entry) error {
			for _, e := range batch {
				t := tail[e.Run]
				if t == nil {
					t = &tailed{partition: span.Partition}
					tail[e.Run] = t
				}
				t.entries, t.seqs, t.ended = append(t.entries, e), append(t.seqs, seq), e.Ended(t.ended)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return tail, nil
}

// newer returns the rows of the runs about which the tail has newer data than the page's rows. The view will have the
// same rows later.
func (r *reader) newer(
	ctx context.Context, page *journal.Page, last *journal.RunRow, tail map[core.RunID]*tailed, q journal.Query,
) (map[core.RunID]journal.RunRow, error) {
	applied := make(map[core.RunID]uint64, len(page.Runs))
	for _, row := range page.Runs {
		applied[row.ID] = row.Applied
	}
	open := len(q.Phases) > 0 && !slices.ContainsFunc(q.Phases, core.RunPhase.Closed)
	newer := map[core.RunID]journal.RunRow{}
	for id, t := range tail {
		through, listed := applied[id]
		at := journal.RunRow{ID: id} // which determines its place, unless the list is by deadline
		switch {
		case !q.ByDeadline && (!q.Follows(&at) || last != nil && q.Order(at, *last) > 0):
			continue // it belongs on another page
		case listed && len(t.since(through)) == 0, !listed && open && t.ended:
			continue
		}
		h, err := r.j.History(ctx, id)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
		h.Entries = append(h.Entries, t.since(h.Applied)...)
		if len(h.Entries) == 0 {
			continue // it was deleted meanwhile
		}
		if newer[id], err = r.row(ctx, id, t.partition, h); err != nil {
			return nil, err
		}
	}
	return newer, nil
}

// row makes a run's row from its history.
func (r *reader) row(ctx context.Context, id core.RunID, partition int, h journal.History) (journal.RunRow, error) {
	k, err := r.workflows.of(ctx, h.Entries[0])
	if err != nil {
		return journal.RunRow{}, fmt.Errorf("list: %w", err)
	}
	view, err := engine.Rows(id, partition, k.workflow.Definition, h)
	if err != nil {
		return journal.RunRow{}, fmt.Errorf("run %s: %w", id, err)
	}
	return view.Runs[0], nil
}
