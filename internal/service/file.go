package service

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// File is the service of a database that another process may be writing. It only reads.
type File struct {
	*reads
	onlyReads
}

var _ api.Service = (*File)(nil)

// NewFile returns the service of a journal that is open for reading.
func NewFile(j journal.Journal, read Read, now func() time.Time) *File {
	f := &File{}
	r := &reader{j: j, now: now}
	f.reads = newReads(r, read, func() core.Time { return core.Time(api.At(now())) }, true)
	r.workflows = f.workflows
	return f
}

// Wait implements api.Service. It polls the run.
func (f *File) Wait(ctx context.Context, name string) (api.Outcome, error) {
	for {
		if err := f.Watch(ctx, name, 0, func(api.Event) error { return nil }); err != nil {
			return api.Outcome{}, err
		}
		run, err := f.Run(ctx, name)
		switch {
		case err != nil:
			return api.Outcome{}, err
		case run.Next != "":
			name = run.Next
		case run.Phase.Closed():
			return api.Outcome{Run: run.Run, Phase: run.Phase, Output: run.Output, Failure: run.Failure}, nil
		}
	}
}

// reader reads a journal without an engine. It starts and recovers nothing. What the view does not have yet, it
// reads from the tails of all partitions.
type reader struct {
	j         journal.Journal
	now       func() time.Time
	workflows *workflows
}

// pollEvery is the time between two looks at a run that another process carries on.
const pollEvery = 200 * time.Millisecond

// Entries returns a run's history: that of the view, and then that of the tail. Between the two reads, a writer may
// move batches from the tail to the view. Then both are read again.
func (r *reader) Entries(ctx context.Context, id core.RunID, after int) ([]core.Entry, error) {
	for {
		h, err := r.j.History(ctx, id)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, err
		}
		entries, err := r.newest(ctx, id, h)
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
			return nil, noSuchRun(id.String())
		}
		return entries[min(after, len(entries)):], nil
	}
}

// newest appends a run's entries in the tails to its history. They are all in the tail of one partition.
func (r *reader) newest(ctx context.Context, id core.RunID, h journal.History) ([]core.Entry, error) {
	spans, err := r.j.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	entries := h.Entries
	for _, span := range spans {
		err := r.j.Tail(ctx, span.Partition, h.Applied, func(_ uint64, batch []core.Entry) error {
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
	}
	return entries, nil
}

// Watch polls the run until it has ended.
func (r *reader) Watch(ctx context.Context, id core.RunID, after int, fn func(core.Entry) error) error {
	seen := after
	for {
		from := r.now()
		entries, err := r.Entries(ctx, id, 0)
		if err != nil {
			return err
		}
		ended := false
		for i := range entries {
			if i >= seen {
				if err := fn(entries[i]); err != nil {
					return err
				}
				seen++
			}
			ended = entries[i].Ended(ended)
		}
		if ended {
			return nil
		}
		// A long history takes long to read. Then the pause is longer too, so that this does not keep a core busy.
		timer := time.NewTimer(max(pollEvery, 5*r.now().Sub(from)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// Lookup finds the newest run of a chain by its workflow id, or by the id of its first run if that was deleted.
func (r *reader) Lookup(ctx context.Context, name string) (core.RunID, error) {
	page, err := r.List(ctx, journal.Query{WorkflowID: name, Limit: 1})
	if err != nil {
		return core.RunID{}, err
	}
	if len(page.Runs) == 0 {
		return core.RunID{}, noSuchRun(name)
	}
	return page.Runs[0].ID, nil
}

// Definition returns a stored definition.
func (r *reader) Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error) {
	return r.j.Definition(ctx, id)
}
