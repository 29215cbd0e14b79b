package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/journal"
	"github.com/pawl-dev/pawl/policy"
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
	newer := newerThan(page.Runs, tail, q)
	if len(newer) == 0 {
		return page, nil
	}
	var oldest core.RunID // what is older than the page's last row belongs to a later page
	if n := len(page.Runs); page.More && n > 0 {
		oldest = page.Runs[n-1].ID
	}
	page.Runs = slices.DeleteFunc(page.Runs, func(row journal.RunRow) bool { return newer[row.ID] })
	for id := range newer {
		if slices.Compare(id[:], oldest[:]) < 0 {
			continue
		}
		row, err := r.row(ctx, id)
		if err != nil {
			return page, err
		}
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
	seq   uint64 // of its last batch
	ended bool
}

func (r reader) tail(ctx context.Context) (map[core.RunID]tailed, error) {
	tail := map[core.RunID]tailed{}
	err := r.j.Tail(ctx, 0, 0, func(seq uint64, batch []core.Entry) error {
		for _, e := range batch {
			tail[e.Run] = tailed{seq, e.Ended(tail[e.Run].ended)}
		}
		return nil
	})
	return tail, err
}

// newerThan returns the runs of which the journal may know more than their rows say. The journal keeps batches for a while
// after the view has them; a run whose row is as new as its last batch is left out.
func newerThan(rows []journal.RunRow, tail map[core.RunID]tailed, q journal.Query) map[core.RunID]bool {
	open := len(q.Phases) > 0 && !slices.ContainsFunc(q.Phases, core.RunPhase.Closed)
	newer := make(map[core.RunID]bool, len(tail))
	for id, k := range tail {
		i := slices.IndexFunc(rows, func(row journal.RunRow) bool { return row.ID == id })
		switch {
		case i >= 0 && rows[i].Applied >= k.seq:
		case i < 0 && open && k.ended: // it is not asked for
		default:
			newer[id] = true
		}
	}
	return newer
}

func selects(q journal.Query, row journal.RunRow) bool {
	return (q.Workflow == "" || q.Workflow == row.Workflow) && (q.WorkflowID == "" || q.WorkflowID == row.WorkflowID) &&
		(len(q.Phases) == 0 || slices.Contains(q.Phases, row.Phase)) &&
		(q.After == (core.RunID{}) || slices.Compare(row.ID[:], q.After[:]) < 0)
}

// row makes a run's row as the view will have it.
func (r reader) row(ctx context.Context, id core.RunID) (journal.RunRow, error) {
	t, err := loadTrail(ctx, r, id)
	if err != nil {
		return journal.RunRow{}, err
	}
	run := t.Run
	row := journal.RunRow{
		ID: id, Workflow: run.Workflow, WorkflowID: run.WorkflowID, Key: run.Key, Definition: run.Definition, Phase: run.Phase,
		CreatedAt: run.CreatedAt, EndedAt: run.EndedAt, Deadline: policy.Earliest(run.Execution.At, run.Deadline.At),
		Parent: run.Parent.Run, Message: t.RunWhy(),
	}
	if !run.Phase.Closed() {
		if row.Wake = run.Wake(); run.Active() {
			row.Wake = 1
		}
	}
	return row, nil
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
