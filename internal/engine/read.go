package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// unread is the error of a read beside the loop. Where the engine has ended meanwhile, and the journal with it, that is why.
func (e *Engine) unread(op, id string, err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return notFound(op, id)
	}
	if s := e.state.Load(); s != nil && s.final {
		return s.err
	}
	return failure(op, id, err)
}

// Entries returns a run's whole history so far, committed entries only. Errors: CodeInvalid, CodeNotFound, CodeClosed.
func (e *Engine) Entries(ctx context.Context, id core.RunID) ([]core.Entry, error) {
	return e.entries(ctx, id, nil)
}

// entries puts what the partition knows behind what the view knows. Where a watcher comes along it is enrolled first, so
// that it misses nothing of what follows.
func (e *Engine) entries(ctx context.Context, id core.RunID, w *Watcher) ([]core.Entry, error) {
	if id == (core.RunID{}) {
		return nil, unnamed("read")
	}
	c := e.call(CallEntries)
	c.Run, c.Watcher = id, w
	if err := e.do(ctx, c); err != nil {
		return nil, err
	}
	pieces, err := c.Pieces, c.Err
	e.free(c)
	if err != nil {
		return nil, err
	}
	h, err := e.cfg.Journal.History(ctx, id)
	if err != nil && (len(pieces) == 0 || !errors.Is(err, journal.ErrNotFound)) {
		return nil, e.unread("read", id.String(), err)
	}
	return join(h, pieces)
}

// join appends to a history the entries of later batches.
func join(h journal.History, pieces []Piece) ([]core.Entry, error) {
	entries := h.Entries
	for _, p := range pieces {
		start := 0
		for _, m := range p.marks {
			rest := p.bytes[start:m.end]
			start = m.end
			if m.seq <= h.Applied {
				continue
			}
			more, err := core.ReadEntries(rest)
			if err != nil {
				return nil, failure("read", "", err)
			}
			entries = append(entries, more...)
		}
	}
	return entries, nil
}

// Inspect folds the committed history into a private copy of the run's state. Errors: those of Entries, CodeInvalid where
// the definition cannot be compiled any more.
func (e *Engine) Inspect(ctx context.Context, id core.RunID) (*core.Run, error) {
	entries, err := e.Entries(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.fold(ctx, id, entries)
}

func (e *Engine) fold(ctx context.Context, id core.RunID, entries []core.Entry) (*core.Run, error) {
	if len(entries) > 0 && len(entries[0].Records) > 0 {
		if created, ok := entries[0].Records[0].(core.RunCreated); ok {
			w, err := e.defs.stored(ctx, created.Definition)
			if err != nil {
				return nil, invalid("read", id.String(), "its definition cannot be used: %w", err)
			}
			var r *core.Run
			if bug := guard("its history was folded", func() { r = core.Restore(id, w.def, entries) }); bug != nil {
				return nil, failure("read", id.String(), bug)
			}
			return r, nil
		}
	}
	return nil, failure("read", id.String(), journal.ErrCorrupt)
}

// Watch calls fn with each committed entry of the run from the first on, in order and without gaps, until the run has
// ended, ctx is done or fn fails. A slow fn holds up nobody: what it was too slow for is read again.
// Errors: CodeInvalid, CodeNotFound, CodeClosed, CodeCancelled, and what fn returned.
func (e *Engine) Watch(ctx context.Context, id core.RunID, fn func(core.Entry) error) error {
	w := NewWatcher()
	seen, ended := 0, false
	reread := func() error {
		entries, err := e.entries(ctx, id, w)
		if err != nil {
			return err
		}
		for i := seen; i < len(entries); i++ {
			if err := fn(entries[i]); err != nil {
				return err
			}
			ended = entries[i].Ended(ended)
			seen++
		}
		return nil
	}
	defer func() { e.inbox.put(item{call: &Call{Op: CallUnwatch, Run: id, Watcher: w}}) }()
	err := reread()
	for err == nil && !ended {
		select {
		case got := <-w.ch:
			switch {
			case got.err != nil:
				err = got.err
			case w.behind.Swap(false) || got.number > seen+1:
				err = reread()
			case got.number == seen+1:
				err = fn(got.entry)
				ended = got.entry.Ended(ended)
				seen++
			}
		case <-ctx.Done():
			err = &Error{Code: CodeCancelled, Op: "watch", ID: id.String(), Err: ctx.Err()}
		}
	}
	return err
}

// Lookup resolves a run id or a workflow id: the open run of that id, or else its newest one.
// Errors: CodeInvalid, CodeNotFound, CodeClosed.
func (e *Engine) Lookup(ctx context.Context, name string) (core.RunID, error) {
	if name == "" {
		return core.RunID{}, unnamed("find")
	}
	c := e.call(CallFind)
	c.Name = name
	if err := e.do(ctx, c); err != nil {
		return core.RunID{}, err
	}
	id, absent, err := c.Started.Run, c.Absent, c.Err
	e.free(c)
	if err != nil || !absent {
		return id, err
	}
	j := e.cfg.Journal
	if given, err := core.ParseRunID(name); err == nil {
		if _, err := j.History(ctx, given); err == nil {
			return given, nil
		}
	}
	found, err := j.Find(ctx, journal.Lookup{WorkflowID: name})
	switch {
	case err == nil && found != id && !e.masked(ctx, found):
		return found, nil
	case err != nil && !errors.Is(err, journal.ErrNotFound):
		return core.RunID{}, e.unread("find", name, err)
	case id != (core.RunID{}):
		return id, nil // ended, and newer than what the view knows
	}
	page, err := j.List(ctx, journal.Query{WorkflowID: name, Limit: 1})
	if err != nil {
		return core.RunID{}, e.unread("find", name, err)
	}
	if len(page.Runs) == 0 {
		return core.RunID{}, notFound("find", name)
	}
	return page.Runs[0].ID, nil
}

// masked reports whether the partition knows a run better than the view.
func (e *Engine) masked(ctx context.Context, id core.RunID) bool {
	c := e.call(CallEntries)
	c.Run = id
	if e.do(ctx, c) != nil {
		return false
	}
	known := len(c.Pieces) > 0
	e.free(c)
	return known
}

// List lists runs, the newest first, those not yet in the view included. Errors: CodeClosed, CodeUncertain.
func (e *Engine) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if q.Limit <= 0 {
		q.Limit = 50
	}
	c := e.call(CallList)
	c.Query = q
	if err := e.do(ctx, c); err != nil {
		return journal.Page{}, err
	}
	known := *c
	rows, err := c.Rows, c.Err
	e.free(c)
	if err != nil {
		return journal.Page{}, err
	}
	for {
		page, err := e.cfg.Journal.List(ctx, q)
		if err != nil {
			return journal.Page{}, e.unread("list", "", err)
		}
		rows = known.overlay(rows, page.Runs)
		if !page.More || len(page.Runs) == 0 {
			slices.SortFunc(rows, newestFirst)
			return cutPage(rows, q.Limit, false), nil
		}
		// What lies in memory may be older than the page's last row: it belongs to a later page then, unless this one
		// is filled up by rows before it.
		last := page.Runs[len(page.Runs)-1]
		slices.SortFunc(rows, newestFirst)
		if n, _ := slices.BinarySearchFunc(rows, last, newestFirst); n >= q.Limit-1 {
			return cutPage(rows, q.Limit, true), nil
		}
		q.After = last.ID
	}
}

func cutPage(rows []journal.RunRow, limit int, more bool) journal.Page {
	if len(rows) > limit {
		rows, more = rows[:limit], true
	}
	return journal.Page{Runs: rows, More: more}
}

// Definition returns a stored definition. Errors: CodeNotFound.
func (e *Engine) Definition(ctx context.Context, id core.DefinitionID) (journal.Definition, error) {
	d, err := e.cfg.Journal.Definition(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		return d, &Error{Code: CodeNotFound, Op: "definition", ID: id.String(), Err: errors.New("there is no such definition")}
	}
	return d, failure("definition", id.String(), err)
}
