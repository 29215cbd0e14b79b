package engine

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// readError returns the error of a read that the caller's own goroutine makes. If the engine has ended meanwhile, the
// journal is closed too, and that is the reason.
func readError(state *atomic.Pointer[status], op, id string, err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return notFound(op, id)
	}
	if s := state.Load(); s != nil && s.final {
		return ofRead(s.err)
	}
	return ofRead(failure(op, id, err))
}

// Entries returns a run's history without its first after entries. It holds committed entries only. Errors:
// CodeInvalid, CodeNotFound, CodeClosed.
func (e *Engine) Entries(ctx context.Context, id core.RunID, after int) ([]core.Entry, error) {
	part, err := e.of(id).entries(ctx, id, after, nil)
	return part.entries, err
}

// part is the part of a history after a position.
type part struct {
	entries []core.Entry
	closed  bool // the run is closed after the last of them
}

// entries joins the entries of the view and of the partition. If there is a watcher, it is added first, so that it
// misses nothing that follows. A caller that has seen all but the last entries gets those from memory, without a read.
func (e *driver) entries(ctx context.Context, id core.RunID, after int, w *Watcher) (part, error) {
	if id == (core.RunID{}) {
		return part{}, emptyID("read")
	}
	c := &EntriesCall{Run: id, Watcher: w}
	if err := e.ask(ctx, c); err != nil {
		if w == nil && e.cfg.Shared && errors.Is(err, errHeld) {
			return e.storedEntries(ctx, id, after)
		}
		return part{}, err
	}
	pieces, folded, closed := c.Answer.Pieces, c.Answer.Folded, c.Answer.Closed
	if folded > 0 {
		n := max(folded-after, 0)
		recent, err := newestOf(pieces, n)
		if err != nil {
			return part{}, err
		}
		if len(recent) >= n {
			return part{recent[len(recent)-n:], closed}, nil
		}
	}
	h, err := e.cfg.Journal.History(ctx, id)
	if err != nil && (len(pieces) == 0 || !errors.Is(err, journal.ErrNotFound)) {
		return part{}, readError(&e.state, "read", id.String(), err)
	}
	all, err := join(h, pieces)
	if err != nil {
		return part{}, err
	}
	if len(h.Entries) == 0 && createdBy(all) == nil { // it was removed meanwhile, and memory has only its end
		return part{}, readError(&e.state, "read", id.String(), journal.ErrNotFound)
	}
	for i := range all {
		closed = all[i].Ended(i > 0 && closed)
	}
	return part{all[min(after, len(all)):], closed}, nil
}

// storedEntries reads the entries of a run whose partition another process owns: from the view and from the journal.
func (e *driver) storedEntries(ctx context.Context, id core.RunID, after int) (part, error) {
	h, err := e.cfg.Journal.History(ctx, id)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return part{}, ofRead(failure("read", id.String(), err))
	}
	all := h.Entries
	err = e.cfg.Journal.Tail(ctx, e.cfg.Partition, h.Applied, func(_ uint64, entries []core.Entry) error {
		for i := range entries {
			if entries[i].Run == id {
				all = append(all, entries[i])
			}
		}
		return nil
	})
	if err != nil {
		return part{}, ofRead(failure("read", id.String(), err))
	}
	if len(all) == 0 {
		return part{}, notFound("read", id.String())
	}
	closed := false
	for i := range all {
		closed = all[i].Ended(i > 0 && closed)
	}
	return part{all[min(after, len(all)):], closed}, nil
}

// newestOf decodes the newest n entries of some batches, with the others of their batches; all, if these have fewer.
// Who follows a run does not decode again what it has.
func newestOf(pieces []Piece, n int) ([]core.Entry, error) {
	var parts [][]core.Entry
	for _, p := range slices.Backward(pieces) {
		for i := len(p.marks) - 1; i >= 0 && n > 0; i-- {
			start := 0
			if i > 0 {
				start = p.marks[i-1].end
			}
			more, err := core.ReadEntries(p.bytes[start:p.marks[i].end])
			if err != nil {
				return nil, failure("read", "", err)
			}
			parts = append(parts, more)
			n -= len(more)
		}
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), nil
}

// join appends the entries of later batches to a history.
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

// Inspect computes a run's state from its committed history. The caller owns the result. Errors: those of Entries, and
// CodeInvalid if the definition can no longer be compiled.
func (e *Engine) Inspect(ctx context.Context, id core.RunID) (*core.Run, error) {
	entries, err := e.Entries(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	return e.defs.fold(ctx, id, entries)
}

func (d *definitions) fold(ctx context.Context, id core.RunID, entries []core.Entry) (*core.Run, error) {
	if len(entries) > 0 && len(entries[0].Records) > 0 {
		if created, ok := entries[0].Records[0].(core.RunCreated); ok {
			w, err := d.stored(ctx, created.Definition)
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

// Watch calls fn with each committed entry of the run after its first after ones, in order and without gaps. It
// returns when the run has ended, ctx is done or fn fails. A slow fn delays nobody else: entries for which it was too
// slow are read again.
//
// Errors: CodeInvalid, CodeNotFound, CodeClosed, CodeCancelled, and the error of fn.
func (e *Engine) Watch(ctx context.Context, id core.RunID, after int, fn func(core.Entry) error) error {
	part := e.of(id)
	w := NewWatcher()
	seen, ended := after, false
	reread := func() error {
		more, err := part.entries(ctx, id, seen, w)
		if err != nil {
			return err
		}
		for _, entry := range more.entries {
			if err := fn(entry); err != nil {
				return err
			}
			seen++
		}
		ended = more.closed
		return nil
	}
	defer part.tell(&UnwatchCall{Run: id, Watcher: w})
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

// Lookup finds a run by a run id or a workflow id. For a workflow id it returns the open run, or else the newest
// one. Errors: CodeInvalid, CodeNotFound, CodeClosed.
func (e *Engine) Lookup(ctx context.Context, name string) (core.RunID, error) {
	if name == "" {
		return core.RunID{}, emptyID("find")
	}
	return e.ofKey(core.KeyOfWorkflowID(name)).lookup(ctx, name)
}

func (e *driver) lookup(ctx context.Context, name string) (core.RunID, error) {
	c := &FindCall{Name: name}
	if err := e.ask(ctx, c); err != nil {
		return core.RunID{}, err
	}
	id := c.Answer.Run
	if !c.Answer.Absent {
		return id, nil
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
		return core.RunID{}, readError(&e.state, "find", name, err)
	case id != (core.RunID{}):
		return id, nil // it has ended, and is newer than those the view knows
	}
	page, err := j.List(ctx, journal.Query{WorkflowID: name, Limit: 1})
	if err != nil {
		return core.RunID{}, readError(&e.state, "find", name, err)
	}
	if len(page.Runs) == 0 {
		return core.RunID{}, notFound("find", name)
	}
	return page.Runs[0].ID, nil
}

// masked reports whether the partition has newer rows of a run than the view. Then the view's row does not count.
func (e *driver) masked(ctx context.Context, id core.RunID) bool {
	c := &EntriesCall{Run: id}
	return e.ask(ctx, c) == nil && len(c.Answer.Pieces) > 0
}

// List lists runs in the order of the query. It includes those that are not in the view yet. Errors: CodeClosed,
// CodeUncertain.
func (e *Engine) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if q.Limit <= 0 {
		q.Limit = 50
	}
	known, err := e.unlisted(ctx, q)
	if err != nil {
		return journal.Page{}, err
	}
	rows := known.Rows
	if q.Stuck && len(known.Aside) > 0 { // the view may not know them as set aside yet
		q.Bodies = maps.Clone(q.Bodies)
		if q.Bodies == nil {
			q.Bodies = make(map[core.RunID]bool)
		}
		for id := range known.Aside {
			q.Bodies[id] = true
		}
	}
	for {
		page, err := e.cfg.Journal.List(ctx, q)
		if err != nil {
			return journal.Page{}, readError(&e.state, "list", "", err)
		}
		rows = known.overlay(rows, page.Runs)
		if !page.More || len(page.Runs) == 0 {
			slices.SortFunc(rows, q.Order)
			return cutPage(rows, q.Limit, false), nil
		}
		// A run in memory may be older than the last row of the view's page. It belongs on a later page, unless too few
		// rows come before it to fill this page.
		last := page.Runs[len(page.Runs)-1]
		slices.SortFunc(rows, q.Order)
		if n, _ := slices.BinarySearchFunc(rows, last, q.Order); n >= q.Limit-1 {
			return cutPage(rows, q.Limit, true), nil
		}
		q.GoOn(&last)
	}
}

// unlisted asks all partitions for the rows that are newer than those of the view.
func (e *Engine) unlisted(ctx context.Context, q journal.Query) (*Newer, error) {
	known := &Newer{Masked: make(map[core.RunID]bool), Aside: make(map[core.RunID]string)}
	for _, part := range e.all() {
		c := &ListCall{Query: q}
		if err := part.ask(ctx, c); errors.Is(err, errHeld) {
			continue // it went to another node meanwhile
		} else if err != nil {
			return nil, err
		}
		known.join(&c.Answer)
	}
	return known, nil
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
		return d, &Error{
			Code: CodeNotFound, Op: "definition", ID: id.String(), Err: errors.New("there is no such definition"),
		}
	}
	return d, ofRead(failure("definition", id.String(), err))
}

// UpdateState is what a run knows of an update, and its own state.
type UpdateState struct {
	Update     *core.Update // nil: the run does not know it
	Workflow   string
	Definition core.DefinitionID
	Phase      core.RunPhase
	Next       core.RunID // the next run of its chain; zero if there is none
	Paused     bool
}

// UpdateState returns a run's durable knowledge of an update. It asks the run in memory, so it costs the same however
// much has happened to the run. Errors: CodeNotFound, and those of Inspect.
func (e *Engine) UpdateState(ctx context.Context, run core.RunID, name, id string) (UpdateState, error) {
	c := &UpdateCall{Run: run, Name: name, ID: id}
	if err := e.of(run).ask(ctx, c); err != nil {
		return UpdateState{}, err
	}
	if c.Answer != nil {
		return *c.Answer, nil
	}
	r, err := e.Inspect(ctx, run)
	if err != nil {
		return UpdateState{}, err
	}
	return updateStateOf(r, name, id), nil
}

func updateStateOf(r *core.Run, name, id string) UpdateState {
	s := UpdateState{
		Workflow: r.Workflow, Definition: r.Definition, Phase: r.Phase, Next: r.Next, Paused: r.PausedAt != 0,
	}
	if known := r.FindUpdate(name, id); known != nil {
		u := *known
		u.Output = bytes.Clone(u.Output) // the caller may change it
		s.Update = &u
	}
	return s
}

// UpdateCall asks what a run knows of an update. The answer is nil if the run is not in memory: the view has all of it,
// or a read reports why not.
type UpdateCall struct {
	repeating[*UpdateState]
	Run      core.RunID
	Name, ID string
}

func (*UpdateCall) op() string { return "read" }

func (c *UpdateCall) do(p *Partition) {
	if r := p.residents.runs[c.Run]; r != nil && r.aside == nil {
		state := updateStateOf(r.state, c.Name, c.ID)
		c.Answer = &state
	}
	p.pipeline.reply(c)
}
