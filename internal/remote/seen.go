package remote

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

const (
	seenFor  = 10 * time.Minute // how long a worker is remembered that does not come any more
	mostSeen = 1000             // workers that are remembered
)

// workerOf names a worker of a queue. Names are what workers say of themselves.
type workerOf struct{ queue, name string }

// seen is what is known of a worker.
type seen struct {
	types       []string
	first, last core.Time
}

// noteWorker remembers who asks for tasks. It is called with the lock held.
func (q *Queues) noteWorker(p *poll) {
	now, key := q.cfg.Now(), workerOf{p.Queue, p.Worker}
	s := q.seen[key]
	if s == nil {
		if len(q.seen) >= mostSeen {
			q.forgetWorkers(now)
		}
		if len(q.seen) >= mostSeen {
			return
		}
		s = &seen{first: now}
		q.seen[key] = s
	}
	s.last, s.types = now, p.Types
}

// forgetWorkers forgets the workers that have not come for long and have no task. It is called with the lock held.
func (q *Queues) forgetWorkers(now core.Time) {
	busy := q.busy()
	for key, s := range q.seen {
		if now >= s.last.Add(seenFor) && busy[key] == 0 {
			delete(q.seen, key)
		}
	}
}

// busy counts the attempts that workers have. It is called with the lock held.
func (q *Queues) busy() map[workerOf]int {
	out := map[workerOf]int{}
	for _, a := range q.attempts {
		if !a.over {
			out[workerOf{a.task.Queue, a.worker}]++
		}
	}
	return out
}

// Workers returns the workers that ask for tasks, or did not long ago, by queue and name.
func (q *Queues) Workers() []api.WorkerSeen {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.cfg.Now()
	q.forgetWorkers(now)
	busy, asking := q.busy(), map[workerOf]bool{}
	for _, polls := range q.polls {
		for _, p := range polls {
			asking[workerOf{p.Queue, p.Worker}] = true
		}
	}
	out := make([]api.WorkerSeen, 0, len(q.seen))
	for key, s := range q.seen {
		out = append(out, api.WorkerSeen{
			Name: key.name, Queue: key.queue, Types: s.types, Since: api.Time(s.first), Last: api.Time(s.last),
			Asks: asking[key], Running: busy[key],
		})
	}
	slices.SortFunc(out, func(a, b api.WorkerSeen) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Name, b.Name))
	})
	return out
}
