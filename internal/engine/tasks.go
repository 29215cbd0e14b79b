package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
)

// tasks are the attempts that wait for a worker, and those in workers' hands. Nothing here knows of batches or of what a
// run does next.
type tasks struct {
	queues  map[queueKey]*taskQueue
	offers  map[core.Token]*offered // waiting, those that wait for their function included
	order   uint64                  // of the last offer
	matches []*taskQueue            // whose waiting attempts may find a worker
	held    map[core.Token]hold
	alive   map[core.Token]bool // attempts that went on while the partition forgot its memory
}

// queueKey names a task queue: workers take attempts of one queue and one task type.
type queueKey struct{ queue, taskType string }

// taskQueue holds the attempts that wait for a worker and counts those in workers' hands.
type taskQueue struct {
	queueKey
	busy    int
	waiting heap.Heap[*offered]
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

// Before orders offers by priority, then by when they came.
func (o *offered) Before(other *offered) bool {
	if o.prio != other.prio {
		return o.prio > other.prio
	}
	return o.order < other.order
}

// Moved notes the offer's place in its queue.
func (o *offered) Moved(to int) { o.place = to }

// hold is an attempt in a worker's hands. Its slot is taken from its recorded start until the worker reports that the
// work is over, whatever became of the attempt meanwhile.
type hold struct {
	queue *taskQueue
	given bool // the worker has it: its start is durable
}

func newTasks() tasks {
	return tasks{queues: make(map[queueKey]*taskQueue), held: make(map[core.Token]hold)}
}

// forget drops the attempts that wait. What workers hold stays.
func (t *tasks) forget() {
	t.offers = make(map[core.Token]*offered)
	t.matches = nil
	for _, q := range t.queues {
		q.waiting, q.listed = heap.Heap[*offered]{}, false
	}
}

func (t *tasks) queue(key queueKey) *taskQueue {
	q := t.queues[key]
	if q == nil {
		q = &taskQueue{queueKey: key}
		t.queues[key] = q
	}
	return q
}

// add puts an attempt into its queue. One that has to wait for its function is parked.
func (t *tasks) add(r *run, e core.Offer, parked bool) {
	t.order++
	o := &offered{
		run: r, step: e.Step, attempt: e.Attempt, prio: e.Prio, order: t.order, queue: t.queue(queueKey{e.Queue, e.Type}),
		parked: parked,
	}
	if t.offers[o.token()] != nil {
		return
	}
	t.offers[o.token()] = o
	if o.parked {
		return
	}
	o.queue.waiting.Push(o)
	t.match(o.queue)
}

// requeue puts an attempt that waited for its function where it would have been.
func (t *tasks) requeue(o *offered) {
	if o == nil || !o.parked {
		return
	}
	o.parked = false
	o.queue.waiting.Push(o)
	t.match(o.queue)
}

// withdraw takes an attempt out of its queue.
func (t *tasks) withdraw(tok core.Token) {
	o := t.offers[tok]
	if o == nil {
		return
	}
	delete(t.offers, tok)
	if !o.parked {
		o.queue.waiting.Remove(o.place)
	}
}

// withdrawRun takes all attempts of a run out of their queues.
func (t *tasks) withdrawRun(r *run) {
	for tok, o := range t.offers {
		if o.run == r {
			t.withdraw(tok)
		}
	}
}

// match lists a queue whose waiting attempts may find a worker.
func (t *tasks) match(q *taskQueue) {
	if !q.listed && q.waiting.Len() > 0 {
		q.listed = true
		t.matches = append(t.matches, q)
	}
}

// nextMatch takes the first listed queue off the list; nil: there is none.
func (t *tasks) nextMatch() *taskQueue {
	n := len(t.matches)
	if n == 0 {
		return nil
	}
	q := t.matches[0]
	copy(t.matches, t.matches[1:])
	t.matches = t.matches[:n-1]
	q.listed = false
	return q
}

// hold counts an attempt whose start is recorded.
func (t *tasks) hold(task core.Task) {
	q := t.queue(queueKey{task.Queue, task.Type})
	q.busy++
	t.held[task.Token] = hold{queue: q}
}

// give notes that a worker gets the attempt now. It reports whether the attempt is still held.
func (t *tasks) give(tok core.Token) bool {
	h, ok := t.held[tok]
	if ok {
		h.given = true
		t.held[tok] = h
	}
	return ok
}

// release frees the slot of an attempt whose work is over.
func (t *tasks) release(tok core.Token) {
	h, ok := t.held[tok]
	if !ok {
		return
	}
	delete(t.held, tok)
	h.queue.busy--
	t.match(h.queue)
}

// dropUngiven forgets the attempts that no worker has got, after their starts were not saved.
func (t *tasks) dropUngiven() {
	for tok, h := range t.held {
		if !h.given {
			delete(t.held, tok)
			h.queue.busy--
			continue
		}
		t.alive[tok] = true
	}
}

// rematch lists all queues again, and the attempts that waited for their function.
func (t *tasks) rematch() {
	for _, o := range t.offers {
		t.requeue(o)
	}
	keys := slices.SortedFunc(maps.Keys(t.queues), func(a, b queueKey) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.taskType, b.taskType))
	})
	for _, k := range keys {
		t.match(t.queues[k])
	}
}

// free reports whether a worker would take another attempt.
func (p *Partition) free(q *taskQueue) bool {
	n := p.cfg.Workers.Slots(q.queue, q.taskType)
	return n < 0 || q.busy < n
}

// offer starts the attempt at once if nothing waits before it and a worker is free, else it queues it.
func (p *Partition) offer(r *run, e core.Offer) {
	q := p.tasks.queue(queueKey{e.Queue, e.Type})
	begins := p.begins(r, e.Step)
	if begins && q.waiting.Len() == 0 && p.free(q) {
		p.begin(r, e.Step, e.Attempt)
		return
	}
	p.tasks.add(r, e, !begins)
}

// begins reports whether the step's task could begin now: one whose function is in a body has to wait for the body.
func (p *Partition) begins(r *run, step core.StepID) bool {
	if r.kind.Bodies == nil {
		return true
	}
	s := &r.state.Steps[step]
	return r.kind.Bodies.Begins(r.id(), r.state.Workflow, s.Spec.Name, s.Spec.Type)
}

// unpark queues an attempt whose function is at hand now.
func (p *Partition) unpark(c *Call) {
	r := p.residents.runs[c.Run]
	if r == nil || r.aside != nil || int(c.Step) >= len(r.state.Steps) {
		return
	}
	p.tasks.requeue(p.tasks.offers[core.Token{Run: c.Run, Step: c.Step, Attempt: r.state.Steps[c.Step].Attempt}])
}

// begin records the attempt's start. Where it comes too late (its deadline has passed, it was withdrawn) the machine
// says so and nothing is handed out.
func (p *Partition) begin(r *run, step core.StepID, attempt int) {
	_ = p.advance(r, nil, core.TaskStarted{Step: step, Attempt: attempt, Worker: p.cfg.Owner})
}

// handOut gives the first waiting attempt of a queue to a free worker.
func (p *Partition) handOut(q *taskQueue) {
	if q.waiting.Len() == 0 || !p.free(q) {
		return
	}
	o := q.waiting.Remove(0)
	if o.parked = !p.begins(o.run, o.step); !o.parked {
		delete(p.tasks.offers, o.token())
		p.begin(o.run, o.step, o.attempt)
	}
	p.tasks.match(q)
}

// Rematch asks the workers again how much they take, and the bodies what they can begin, after that has changed.
func (p *Partition) Rematch(now core.Time) {
	p.at(now)
	p.tasks.rematch()
	p.settle()
}
