package engine

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// audience are those who wait for runs, and those who watch them. What it tells them is durable.
type audience struct {
	waiters  map[core.RunID][]*Waiter
	watchers map[core.RunID][]*Watcher
}

func newAudience() audience {
	return audience{waiters: make(map[core.RunID][]*Waiter), watchers: make(map[core.RunID][]*Watcher)}
}

// result answers with a run's outcome, following its chain through what is in memory, or enrols the waiter. A call whose
// waiter was enrolled is answered only where the run is not in memory: then it may have ended long ago, and the caller
// looks into the view. Enrolled first, it misses nothing meanwhile.
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
			p.audience.addWaiter(id, c.Waiter) // its end is on its way to the disk
			return
		}
		if r.state.Next == (core.RunID{}) {
			c.Outcome = r.outcome()
			p.reply(c)
			return
		}
		id = r.state.Next
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

// enrolWatcher adds a watcher, once.
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

// leaveFrom takes one of those that wait for a run out.
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

// tellWaiters tells those who wait for runs that ended in a batch; where the chain goes on they wait for the next run.
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

// Watcher follows a run's committed entries. Entries are numbered from 1; who finds a gap, because it was slow, reads the
// history again.
type Watcher struct {
	ch     chan watched
	behind atomic.Bool // an entry was dropped
}

// watched is one committed entry, or news that there will be none.
type watched struct {
	entry  core.Entry
	number int
	err    error
}

// watchBuffer is how many entries a watcher may be late.
const watchBuffer = 256

// NewWatcher returns a watcher for one CallEntries.
func NewWatcher() *Watcher { return &Watcher{ch: make(chan watched, watchBuffer)} }

func (w *Watcher) tell(e watched) {
	select {
	case w.ch <- e:
	default:
		w.reread()
	}
}

// reread has the watcher read the history again. It may have taken all there was by now, so it is woken by an empty entry;
// where its channel is full, it finds out by what it takes next.
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

// fail tells those who wait for a run that it cannot go on.
func (a *audience) fail(id core.RunID, err error) {
	for _, w := range a.waiters[id] {
		w.tell(waited{err: err})
	}
	delete(a.waiters, id)
}

// again has everyone who waits for a run or watches one ask again, or fails them: what was on its way may be on disk, and
// nobody was told of it.
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

// entries answers with what the view may lack of a run's history.
func (p *Partition) entries(c *Call) {
	if c.Watcher != nil {
		p.audience.addWatcher(c.Run, c.Watcher)
	}
	if r := p.residents.runs[c.Run]; r != nil {
		c.Pieces = r.pieces()
		if r.aside == nil { // else its state may be half of what an input would have made of it
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

// list answers with the rows that the view does not have up to date.
func (p *Partition) list(c *Call) {
	q := &c.Query
	c.Masked = make(map[core.RunID]bool)
	p.pipeline.eachBehind(func(r *run) {
		if c.Masked[r.id()] {
			return
		}
		c.Masked[r.id()] = true
		if row := r.row(p.cfg.Partition, r.lastBatch); selects(q, &row) {
			c.Rows = append(c.Rows, row)
		}
	})
	for id, a := range p.residents.aside {
		switch {
		case a.inView:
		case a.missingRow == nil:
			c.note(id, a)
		case selects(q, a.missingRow):
			c.Rows = append(c.Rows, *a.missingRow)
		}
	}
	slices.SortFunc(c.Rows, newestFirst)
	c.Rows = c.Rows[:min(len(c.Rows), q.Limit+1)]
	p.reply(c)
}

// selects reports whether a row is among those that a query asks for.
func selects(q *journal.Query, row *journal.RunRow) bool {
	return (q.Workflow == "" || q.Workflow == row.Workflow) &&
		(q.WorkflowID == "" || q.WorkflowID == row.WorkflowID) &&
		(len(q.Phases) == 0 || slices.Contains(q.Phases, row.Phase)) &&
		(q.After == core.RunID{} || bytes.Compare(row.ID[:], q.After[:]) < 0)
}

func newestFirst(a, b journal.RunRow) int { return bytes.Compare(b.ID[:], a.ID[:]) }
