package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// queueKey names a task queue: workers take attempts of one queue and one task type.
type queueKey struct{ queue, taskType string }

// taskQueue holds the attempts that wait for a worker and counts those in workers' hands.
type taskQueue struct {
	queueKey
	busy    int
	waiting waiting
	listed  bool // among the queues to be matched
}

// offered is an attempt that waits: higher priority first, then first come, first served.
type offered struct {
	run     *run
	step    core.StepID
	attempt int
	prio    int32
	order   uint64
	queue   *taskQueue
	place   int
	parked  bool // it waits for its function, and is not in the queue
}

func (o *offered) token() core.Token {
	return core.Token{Run: o.run.id(), Step: o.step, Attempt: o.attempt}
}

// waiting is an indexed heap of offers.
type waiting []*offered

func (w waiting) less(i, j int) bool {
	if w[i].prio != w[j].prio {
		return w[i].prio > w[j].prio
	}
	return w[i].order < w[j].order
}

func (w waiting) swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

func (w *waiting) push(o *offered) {
	o.place = len(*w)
	*w = append(*w, o)
	w.up(o.place)
}

func (w *waiting) remove(i int) *offered {
	h := *w
	o, last := h[i], len(h)-1
	h.swap(i, last)
	h[last] = nil
	*w = h[:last]
	if i != last && !w.down(i) {
		w.up(i)
	}
	return o
}

func (w waiting) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !w.less(i, parent) {
			return
		}
		w.swap(i, parent)
		i = parent
	}
}

func (w waiting) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(w) {
			break
		}
		if child+1 < len(w) && w.less(child+1, child) {
			child++
		}
		if !w.less(child, i) {
			break
		}
		w.swap(i, child)
		i = child
	}
	return i > start
}

// hold is an attempt in a worker's hands. Its slot is taken from its recorded start until the worker reports that the
// work is over, whatever became of the attempt meanwhile.
type hold struct {
	queue *taskQueue
	given bool // the worker has it: its start is durable
}

func (p *Partition) queue(key queueKey) *taskQueue {
	q := p.queues[key]
	if q == nil {
		q = &taskQueue{queueKey: key}
		p.queues[key] = q
	}
	return q
}

// free reports whether a worker would take another attempt.
func (p *Partition) free(q *taskQueue) bool {
	n := p.cfg.Workers.Slots(q.queue, q.taskType)
	return n < 0 || q.busy < n
}

// offer starts the attempt at once if nothing waits before it and a worker is free, else it queues it.
func (p *Partition) offer(r *run, e core.Offer) {
	q := p.queue(queueKey{e.Queue, e.Type})
	begins := p.begins(r, e.Step)
	if begins && len(q.waiting) == 0 && p.free(q) {
		p.begin(r, e.Step, e.Attempt)
		return
	}
	p.order++
	o := &offered{run: r, step: e.Step, attempt: e.Attempt, prio: e.Prio, order: p.order, queue: q, parked: !begins}
	if p.offers[o.token()] != nil {
		return
	}
	p.offers[o.token()] = o
	if o.parked {
		return
	}
	q.waiting.push(o)
	p.match(q)
}

// begins reports whether the step's task could begin now: one whose function is in a body has to wait for the body.
func (p *Partition) begins(r *run, step core.StepID) bool {
	if r.kind.Bodies == nil {
		return true
	}
	s := &r.state.Steps[step]
	return r.kind.Bodies.Begins(r.id(), r.state.Workflow, s.Spec.Name, s.Spec.Type)
}

// unpark puts an attempt that waited for its function where it would have been.
func (p *Partition) unpark(c *Call) {
	r := p.runs[c.Run]
	if r == nil || int(c.Step) >= len(r.state.Steps) {
		return
	}
	p.requeue(p.offers[core.Token{Run: c.Run, Step: c.Step, Attempt: r.state.Steps[c.Step].Attempt}])
}

func (p *Partition) requeue(o *offered) {
	if o == nil || !o.parked {
		return
	}
	o.parked = false
	o.queue.waiting.push(o)
	p.match(o.queue)
}

// begin records the attempt's start. Where it comes too late (its deadline has passed, it was withdrawn) the machine
// says so and nothing is handed out.
func (p *Partition) begin(r *run, step core.StepID, attempt int) {
	_ = p.advance(r, nil, core.TaskStarted{Step: step, Attempt: attempt, Worker: p.cfg.Owner})
}

func (p *Partition) withdraw(tok core.Token) {
	o := p.offers[tok]
	if o == nil {
		return
	}
	delete(p.offers, tok)
	if !o.parked {
		o.queue.waiting.remove(o.place)
	}
}

// match lists a queue whose waiting attempts may find a worker.
func (p *Partition) match(q *taskQueue) {
	if !q.listed && len(q.waiting) > 0 {
		q.listed = true
		p.matches = append(p.matches, q)
	}
}

// matchOne hands the first waiting attempt of a listed queue to a free worker.
func (p *Partition) matchOne(q *taskQueue) {
	q.listed = false
	if len(q.waiting) == 0 || !p.free(q) {
		return
	}
	o := q.waiting.remove(0)
	if o.parked = !p.begins(o.run, o.step); !o.parked {
		delete(p.offers, o.token())
		p.begin(o.run, o.step, o.attempt)
	}
	p.match(q)
}

// release frees the slot of an attempt whose work is over.
func (p *Partition) release(tok core.Token) {
	h, ok := p.held[tok]
	if !ok {
		return
	}
	delete(p.held, tok)
	h.queue.busy--
	p.match(h.queue)
}

// Rematch asks the workers again how much they take, and the bodies what they can begin, after that has changed.
func (p *Partition) Rematch(now core.Time) {
	p.at(now)
	for _, o := range p.offers {
		p.requeue(o)
	}
	keys := slices.SortedFunc(maps.Keys(p.queues), func(a, b queueKey) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.taskType, b.taskType))
	})
	for _, k := range keys {
		p.match(p.queues[k])
	}
	p.settle()
}
