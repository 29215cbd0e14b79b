package engine

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// result answers with a run's outcome, following its chain through what is in memory, or enrols the waiter. A call whose
// waiter was enrolled is answered only where the run is not in memory: then it may have ended long ago, and the caller
// looks into the view. Enrolled first, it misses nothing meanwhile.
func (p *Partition) result(c *Call) {
	id := c.Run
	for {
		r := p.runs[id]
		if r == nil || !r.state.Phase.Closed() {
			break
		}
		if r.ended > p.durable {
			p.enrol(id, c.Waiter) // its end is on its way to the disk
			return
		}
		if r.state.Next == (core.RunID{}) {
			c.Outcome = r.outcome()
			p.reply(c)
			return
		}
		id = r.state.Next
	}
	p.enrol(id, c.Waiter)
	if p.runs[id] == nil {
		c.Absent, c.Run = true, id
		p.reply(c)
	}
}

func (p *Partition) enrol(id core.RunID, w *Waiter) {
	w.run = id
	p.waiters[id] = append(p.waiters[id], w)
}

func (p *Partition) leave(c *Call) {
	leaveFrom(p.waiters, c.Waiter.run, c.Waiter)
	p.reply(c)
}

// leaveFrom takes one of those that wait for a run out.
func leaveFrom[T comparable](m map[core.RunID][]T, id core.RunID, who T) {
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
func (p *Partition) tellWaiters(b *batch) {
	for i := range b.ended {
		e := &b.ended[i]
		ws := p.waiters[e.outcome.Run]
		if len(ws) == 0 {
			continue
		}
		delete(p.waiters, e.outcome.Run)
		if e.next != (core.RunID{}) {
			for _, w := range ws {
				p.enrol(e.next, w)
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

// reread has the watcher read the history again. It is woken for that, since by now it may have taken all there was; where there
// is more for it, it finds out by what it takes next.
func (w *Watcher) reread() {
	w.behind.Store(true)
	select {
	case w.ch <- watched{}:
	default:
	}
}

func (p *Partition) tellWatchers(b *batch) {
	for i := range b.watched {
		for _, w := range p.watchers[b.watched[i].entry.Run] {
			w.tell(b.watched[i])
		}
	}
}

// entries answers with what the view may lack of a run's history.
func (p *Partition) entries(c *Call) {
	if c.Watcher != nil && !slices.Contains(p.watchers[c.Run], c.Watcher) {
		p.watchers[c.Run] = append(p.watchers[c.Run], c.Watcher)
	}
	if r := p.runs[c.Run]; r != nil {
		c.Pieces, c.Folded, c.Closed = r.pieces(), r.state.Seq, r.state.Phase.Closed()
	} else {
		c.Absent = true
	}
	p.reply(c)
}

func (p *Partition) unwatch(c *Call) {
	leaveFrom(p.watchers, c.Run, c.Watcher)
	p.reply(c)
}

// list answers with the rows that the view does not have up to date.
func (p *Partition) list(c *Call) {
	q := &c.Query
	c.Masked = make(map[core.RunID]bool)
	p.unviewed(func(r *run) {
		if c.Masked[r.id()] {
			return
		}
		c.Masked[r.id()] = true
		if s := r.state; (q.Workflow == "" || q.Workflow == s.Workflow) &&
			(q.WorkflowID == "" || q.WorkflowID == s.WorkflowID) &&
			(len(q.Phases) == 0 || slices.Contains(q.Phases, s.Phase)) &&
			(q.After == core.RunID{} || bytes.Compare(s.ID[:], q.After[:]) < 0) {
			c.Rows = append(c.Rows, r.row(p.cfg.Partition, r.last))
		}
	})
	slices.SortFunc(c.Rows, newestFirst)
	c.Rows = c.Rows[:min(len(c.Rows), q.Limit+1)]
	p.reply(c)
}

func newestFirst(a, b journal.RunRow) int { return bytes.Compare(b.ID[:], a.ID[:]) }
