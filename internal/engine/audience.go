package engine

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// audience holds the callers that wait for runs and those that watch them. They only learn what is durable.
type audience struct {
	waiters  map[core.RunID][]*Waiter
	watchers map[core.RunID][]*Watcher
}

func newAudience() audience {
	return audience{waiters: make(map[core.RunID][]*Waiter), watchers: make(map[core.RunID][]*Watcher)}
}

// ResultCall asks for the outcome of a run. It is answered if that is known, and if the run is not in memory. Otherwise
// the Waiter gets the answer later.
type ResultCall struct {
	repeating[Result]
	Run    core.RunID
	Waiter *Waiter
}

// Result answers a ResultCall.
type Result struct {
	Outcome Outcome
	// Absent is the run whose outcome the view has, if it has ended; zero: the outcome is known.
	Absent core.RunID
}

func (*ResultCall) op() string { return "read" }

// do follows the chain through the runs in memory. If the outcome is not known yet, it adds the waiter.
//
// A run that is not in memory may have ended long ago. So the call is answered at once, and the caller looks into
// the view. The waiter is added before, so that it also gets an end which comes in between.
func (c *ResultCall) do(p *Partition) {
	id := c.Run
	for {
		if a := p.residents.aside[id]; a != nil {
			c.Err = failure(c.op(), id.String(), a)
			p.pipeline.reply(c)
			return
		}
		r := p.residents.runs[id]
		if r == nil || !r.state.Phase.Closed() {
			break
		}
		if r.endBatch > p.pipeline.durable {
			p.audience.addWaiter(id, c.Waiter) // its end is not durable yet
			return
		}
		if r.state.Next == (core.RunID{}) {
			c.Answer.Outcome = r.outcome()
			c.answer() // it is durable
			return
		}
		id = r.state.Next
	}
	if out, ok := p.residents.recent.of(id, p.now); ok && p.residents.runs[id] == nil {
		c.Answer.Outcome = out
		c.answer()
		return
	}
	p.audience.addWaiter(id, c.Waiter)
	if p.residents.runs[id] == nil {
		c.Answer.Absent = id
		p.pipeline.reply(c)
	}
}

func (a *audience) addWaiter(id core.RunID, w *Waiter) {
	w.run = id
	a.waiters[id] = append(a.waiters[id], w)
}

// addWatcher adds a watcher. A watcher that was added before is not added twice.
func (a *audience) addWatcher(id core.RunID, w *Watcher) {
	if !slices.Contains(a.watchers[id], w) {
		a.watchers[id] = append(a.watchers[id], w)
	}
}

// watched reports whether anybody watches the run.
func (a *audience) watched(id core.RunID) bool { return len(a.watchers) > 0 && a.watchers[id] != nil }

// LeaveCall removes a waiter.
type LeaveCall struct {
	telling
	Waiter *Waiter
}

func (*LeaveCall) op() string { return "read" }

func (c *LeaveCall) do(p *Partition) {
	removeFrom(p.audience.waiters, c.Waiter.run, c.Waiter)
	p.pipeline.reply(c)
}

// removeFrom removes a caller that waits for a run, or watches it.
func removeFrom[T comparable](m map[core.RunID][]T, id core.RunID, who T) {
	rest := m[id]
	if i := slices.Index(rest, who); i >= 0 {
		rest = slices.Delete(rest, i, i+1)
	}
	if len(rest) == 0 {
		delete(m, id)
	} else {
		m[id] = rest
	}
}

// tellWaiters answers those who wait for runs that ended in a batch. If the chain goes on, they now wait for the next
// run.
func (a *audience) tellWaiters(b *batch) {
	for i := range b.ended {
		e := &b.ended[i]
		ws := a.waiters[e.outcome.Run]
		if len(ws) == 0 {
			continue
		}
		delete(a.waiters, e.outcome.Run)
		if e.next != (core.RunID{}) {
			for _, w := range ws {
				a.addWaiter(e.next, w)
			}
			continue
		}
		for _, w := range ws {
			w.tell(waited{outcome: e.outcome})
		}
	}
}

// Watcher receives a run's committed entries. Entries are numbered from 1. A watcher that was too slow finds a gap
// in the numbers, and reads the history again.
type Watcher struct {
	ch     chan watched
	behind atomic.Bool // an entry was dropped, so the history has to be read again
}

// watched is one committed entry, or the error that ends the watching.
type watched struct {
	entry  core.Entry
	number int
	err    error
}

// watchBuffer is how many entries wait for a slow watcher. Further ones are dropped.
const watchBuffer = 64

// NewWatcher returns a watcher for one EntriesCall.
func NewWatcher() *Watcher { return &Watcher{ch: make(chan watched, watchBuffer)} }

func (w *Watcher) tell(e watched) {
	select {
	case w.ch <- e:
	default:
		w.reread()
	}
}

// reread makes the watcher read the history again. A watcher that waits for an entry is woken by an empty one. If
// its channel is full, it sees the flag with the next entry it takes.
func (w *Watcher) reread() {
	w.behind.Store(true)
	select {
	case w.ch <- watched{}:
	default:
	}
}

func (a *audience) tellWatchers(b *batch) {
	for i := range b.watched {
		for _, w := range a.watchers[b.watched[i].entry.Run] {
			w.tell(b.watched[i])
		}
	}
}

// note keeps the entry of a transition with its batch for those who watch the run.
func (a *audience) note(b *batch, t *transition) {
	if e := &t.out.Entry; len(e.Records) > 0 && a.watched(e.Run) {
		b.watched = append(b.watched, watched{entry: *e, number: t.run.state.Seq})
	}
}

// fail answers those who wait for a run with the error that it is set aside.
func (a *audience) fail(id core.RunID, err error) {
	for _, w := range a.waiters[id] {
		w.tell(waited{err: err})
	}
	delete(a.waiters, id)
}

// askAgain makes all callers that wait for a run or watch one ask again, after an append failed: it may have stored an
// end that was not reported. With an error, it fails them instead.
func (a *audience) askAgain(err error) {
	for _, ws := range a.waiters {
		for _, w := range ws {
			w.tell(waited{again: err == nil, err: err})
		}
	}
	clear(a.waiters)
	for _, ws := range a.watchers {
		for _, w := range ws {
			if err != nil {
				w.tell(watched{err: err})
			}
			w.reread()
		}
	}
	if err != nil {
		clear(a.watchers)
	}
}

// EntriesCall asks for the part of a run's history that the view may not have yet. It also adds a watcher; nil if it
// only reads.
type EntriesCall struct {
	repeating[Recent]
	Run     core.RunID
	Watcher *Watcher
}

// Recent answers an EntriesCall.
type Recent struct {
	Pieces []Piece
	Folded int  // how many entries the run in memory has; 0: the run is not in memory
	Closed bool // the run in memory has ended
}

func (*EntriesCall) op() string { return "read" }

func (c *EntriesCall) do(p *Partition) {
	if c.Watcher != nil {
		p.audience.addWatcher(c.Run, c.Watcher)
	}
	r := p.residents.runs[c.Run]
	if r == nil {
		p.pipeline.reply(c)
		return
	}
	c.Answer.Pieces = r.pieces()
	if r.aside == nil { // a panic may have left the state of a run that is set aside half changed
		c.Answer.Folded, c.Answer.Closed = r.state.Seq, r.state.Phase.Closed()
	}
	p.pipeline.replyOf(r, c)
}

// UnwatchCall removes a watcher of a run.
type UnwatchCall struct {
	telling
	Run     core.RunID
	Watcher *Watcher
}

func (*UnwatchCall) op() string { return "read" }

func (c *UnwatchCall) do(p *Partition) {
	removeFrom(p.audience.watchers, c.Run, c.Watcher)
	p.pipeline.reply(c)
}

// ListCall asks for the rows that are newer than those of the view.
type ListCall struct {
	repeating[Newer]
	Query journal.Query
}

// Newer answers a ListCall.
type Newer struct {
	Rows   []journal.RunRow
	Masked map[core.RunID]bool   // runs whose row in the view is out of date; Rows has the current one
	Aside  map[core.RunID]string // why a run is set aside, if its row in the view does not contain it
}

func (*ListCall) op() string { return "list" }

func (c *ListCall) do(p *Partition) {
	q, n := &c.Query, &c.Answer
	n.Masked, n.Aside = make(map[core.RunID]bool), make(map[core.RunID]string)
	of := map[core.RunID]*run{}
	p.pipeline.eachBehind(func(r *run) {
		if n.Masked[r.id()] {
			return
		}
		n.Masked[r.id()] = true
		if q.WorkflowID != "" && q.WorkflowID != r.state.WorkflowID {
			return // most lists are for one name; making the rows of all runs would hold up the loop
		}
		if row := r.columns(p.cfg.Partition, r.lastBatch); selects(q, &row) {
			n.Rows, of[row.ID] = append(n.Rows, row), r
		}
	})
	for id, a := range p.residents.aside {
		switch {
		case a.explained:
		case a.missingRow == nil:
			n.Aside[id] = a.Error()
		case selects(q, a.missingRow):
			n.Rows = append(n.Rows, *a.missingRow)
		}
	}
	slices.SortFunc(n.Rows, q.Order)
	n.Rows = n.Rows[:min(len(n.Rows), q.Limit+1)]
	for i := range n.Rows { // only those of the page
		if r := of[n.Rows[i].ID]; r != nil {
			r.tell(&n.Rows[i])
		}
	}
	p.pipeline.reply(c)
}

// join adds what another partition answered.
func (n *Newer) join(o *Newer) {
	n.Rows = append(n.Rows, o.Rows...)
	maps.Copy(n.Masked, o.Masked)
	maps.Copy(n.Aside, o.Aside)
}

// overlay returns the rows of a list: those from the partitions, and the up-to-date ones of the view.
func (n *Newer) overlay(rows, view []journal.RunRow) []journal.RunRow {
	for _, row := range view {
		if n.Masked[row.ID] {
			continue
		}
		if why, aside := n.Aside[row.ID]; aside && !row.Phase.Closed() {
			row.Message = why
		}
		rows = append(rows, row)
	}
	return rows
}

// selects reports whether a query asks for a row on the page after q.After.
func selects(q *journal.Query, row *journal.RunRow) bool {
	return q.Selects(row) && q.Follows(row)
}
