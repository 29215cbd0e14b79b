package remote

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
)

const (
	// servedFor is how long a queue counts as served after a worker was last there, or after the queues were opened:
	// workers come back when the server has started.
	servedFor  = time.Minute
	mostVisits = 64     // workers with different types that are remembered of a queue
	mostQueues = 10_000 // queues of which workers are remembered
)

// visit is the last time that workers with these types asked for tasks.
type visit struct {
	types []string
	at    core.Time
}

// noteVisit remembers that a worker asks for tasks. It is called with the lock held.
func (q *Queues) noteVisit(p *poll) {
	q.noteWorker(p)
	all := q.came[p.Queue]
	if all == nil && len(q.came) >= mostQueues {
		return
	}
	now := q.cfg.Now()
	if i := slices.IndexFunc(all, func(v visit) bool { return slices.Equal(v.types, p.Types) }); i >= 0 {
		all[i].at = now
		return
	}
	if len(all) == mostVisits {
		all = all[1:]
	}
	q.came[p.Queue] = append(all, visit{p.Types, now})
}

// Served reports whether a worker of another process takes tasks of a type from a queue, or did a moment ago, or may
// come: it is not known yet after the start.
func (q *Queues) Served(queue, taskType string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.cfg.Now()
	if now < q.opened.Add(servedFor) {
		return true
	}
	takes := func(p *poll) bool { return q.takes(p.Types, taskType) }
	if slices.ContainsFunc(q.polls[queue], takes) {
		return true
	}
	for _, v := range q.came[queue] {
		if now < v.at.Add(servedFor) && q.takes(v.types, taskType) {
			return true
		}
	}
	for _, a := range q.attempts { // a fully loaded worker does not ask
		if a.task.Queue == queue && !a.over && !a.revoked {
			return true
		}
	}
	return false
}
