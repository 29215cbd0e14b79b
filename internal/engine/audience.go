package engine

import (
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// audience holds those who wait for runs and those who watch them. They are told only what is durable.
type audience struct {
	waiters  map[core.RunID][]*Waiter
	watchers map[core.RunID][]*Watcher
}

func newAudience() audience {
	return audience{waiters: make(map[core.RunID][]*Waiter), watchers: make(map[core.RunID][]*Watcher)}
}

// result answers with the outcome of a run. It follows the chain through the runs in memory. If the outcome is not
// known yet, it adds the waiter.
//
// A run that is not in memory may have ended long ago. So the call is answered at once, and the caller looks into
// the view. The waiter is added before, so that it also gets an end which comes in between.
func (p *Partition) result(c *Call) {
	id := c.Run
	for {
		if a := p.residents.aside[id]; a != nil {
			c.Err = failure(c.op(), id.String(), a)
			p.reply(c)
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
			c.Outcome = r.outcome()
			c.answer() // it is durable
			return
		}
		id = r.state.Next
	}
	if out, ok := p.residents.recent.of(id, p.now); ok && p.residents.runs[id] == nil {
		c.Outcome = out
		c.answer()
		return
	}
	p.audience.addWaiter(id, c.Waiter)
	if p.residents.runs[id] == nil {
		c.Absent, c.Run = true, id
		p.reply(c)
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

func (p *Partition) leave(c *Call) {
	removeFrom(p.audience.waiters, c.Waiter.run, c.Waiter)
	p.reply(c)
}

// removeFrom removes one of those who wait for a run, or who watch it.
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

// tellWaiters tells those who wait for runs that ended in a batch. If the chain goes on, they now wait for the next
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

// NewWatcher returns a watcher for one CallEntries.
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

// fail tells those who wait for a run that it is set aside.
func (a *audience) fail(id core.RunID, err error) {
	for _, w := range a.waiters[id] {
		w.tell(waited{err: err})
	}
	delete(a.waiters, id)
}

// askAgain makes everyone who waits for a run or watches one ask again, after an append failed: it may have stored
// an end of which nobody was told. With an error, it fails them instead.
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

// entries answers with the part of a run's history that the view may not have yet.
func (p *Partition) entries(c *Call) {
	if c.Watcher != nil {
		p.audience.addWatcher(c.Run, c.Watcher)
	}
	if r := p.residents.runs[c.Run]; r != nil {
		c.Pieces = r.pieces()
		if r.aside == nil { // a panic may have left the state of a run that is set aside half changed
			c.Folded, c.Closed = r.state.Seq, r.state.Phase.Closed()
		}
	} else {
		c.Absent = true
	}
	p.reply(c)
}

func (p *Partition) unwatch(c *Call) {
	removeFrom(p.audience.watchers, c.Run, c.Watcher)
	p.reply(c)
}

// list answers with the rows that are newer than those of the view.
func (p *Partition) list(c *Call) {
	q := &c.Query
	c.Masked = make(map[core.RunID]bool)
	p.pipeline.eachBehind(func(r *run) {
		if c.Masked[r.id()] {
			return
		}
		c.Masked[r.id()] = true
		if q.WorkflowID != "" && q.WorkflowID != r.state.WorkflowID {
			return // most lists are for one name; making the rows of all runs would hold up the loop
		}
		if row := r.row(p.cfg.Partition, r.lastBatch); selects(q, &row) {
			c.Rows = append(c.Rows, row)
		}
	})
	for id, a := range p.residents.aside {
		switch {
		case a.explained:
		case a.missingRow == nil:
			c.note(id, a)
		case selects(q, a.missingRow):
			c.Rows = append(c.Rows, *a.missingRow)
		}
	}
	slices.SortFunc(c.Rows, q.Order)
	c.Rows = c.Rows[:min(len(c.Rows), q.Limit+1)]
	p.reply(c)
}

// selects reports whether a query asks for a row on the page after q.After.
func selects(q *journal.Query, row *journal.RunRow) bool {
	return q.Selects(row) && q.Follows(row)
}
