package engine

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/policy"
)

// tasks are the attempts that wait for a worker, and those in workers' hands. Nothing here knows of batches or of what a
// run does next.
type tasks struct {
	queues  map[queueKey]*taskQueue
	apart   []*taskQueue            // those of suspects
	offers  map[core.Token]*offered // waiting, those that wait for their function included
	order   uint64                  // of the last offer
	matches []*taskQueue            // whose waiting attempts may find a worker
	held    map[core.Token]hold
	alive   map[core.Token]bool // attempts that went on while the partition forgot its memory

	matcher *Matcher
	seat    *seat
	taken   slot // for the attempt that is about to start; zero: none is, or it has started
}

// queueKey names a task queue: workers take attempts of one queue and one task type.
//
// Suspects wait in a queue of their own. They need a slot as all others do, and of a process only one has one.
type queueKey struct {
	queue, taskType string
	apart           bool
}

// ordinary returns the key of the queue whose slots the attempts need.
func (k queueKey) ordinary() queueKey {
	k.apart = false
	return k
}

// rank orders the queue of suspects behind the ordinary one.
func (k queueKey) rank() int {
	if k.apart {
		return 1
	}
	return 0
}

// taskQueue holds the attempts that wait for a worker.
type taskQueue struct {
	queueKey
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
	slot  slot
	given bool // the worker has it: its start is durable
}

func newTasks(m *Matcher, wake func(queue, taskType string)) tasks {
	return tasks{
		queues: make(map[queueKey]*taskQueue), held: make(map[core.Token]hold), matcher: m, seat: &seat{wake: wake},
	}
}

// forget drops the attempts that wait. What workers hold stays.
func (t *tasks) forget() {
	t.offers = make(map[core.Token]*offered)
	t.matches = nil
	for _, q := range t.queues {
		q.waiting, q.listed = heap.Heap[*offered]{}, false
		t.matcher.leave(t.seat, q.queueKey)
	}
}

func (t *tasks) queue(key queueKey) *taskQueue {
	q := t.queues[key]
	if q == nil {
		q = &taskQueue{queueKey: key}
		t.queues[key] = q
		if key.apart {
			t.apart = append(t.apart, q)
		}
	}
	return q
}

// add puts an attempt into its queue. One that has to wait for its function is parked.
func (t *tasks) add(r *run, e core.Offer, parked bool) {
	t.order++
	o := &offered{
		run: r, step: e.Step, attempt: e.Attempt, prio: e.Prio, order: t.order, queue: t.queue(queueKey{e.Queue, e.Type, e.Suspect}),
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
	t.unpark(o)
	t.match(o.queue)
}

func (t *tasks) unpark(o *offered) {
	if o.parked {
		o.parked = false
		o.queue.waiting.Push(o)
	}
}

// withdraw takes an attempt out of its queue.
func (t *tasks) withdraw(tok core.Token) {
	o := t.offers[tok]
	if o == nil {
		return
	}
	delete(t.offers, tok)
	if !o.parked {
		t.unqueue(o)
	}
}

// unqueue takes an offer out of its queue. A queue in which nothing waits needs no slot.
func (t *tasks) unqueue(o *offered) {
	o.queue.waiting.Remove(o.place)
	if o.queue.waiting.Len() == 0 {
		t.matcher.leave(t.seat, o.queue.queueKey)
	}
}

// take takes a slot for the next attempt of a queue; false: none is free now.
func (t *tasks) take(q *taskQueue) bool {
	got, free := t.matcher.take(t.seat, q.queueKey)
	if free {
		t.taken = got
	}
	return free
}

// giveBack gives the slot back that was taken for an attempt which did not start.
func (t *tasks) giveBack() {
	if got := t.taken; got.of != nil {
		t.taken = slot{}
		t.freed(got)
	}
}

// freed gives a slot back. The attempts that may have it now are those of its queue; where a suspect had it, all other
// suspects may go on as well.
func (t *tasks) freed(got slot) {
	t.matcher.release(t.seat, got)
	t.match(t.queue(got.key.ordinary()))
	for _, q := range t.apart {
		if got.key.apart || q.ordinary() == got.key {
			t.match(q)
		}
	}
}

// withdrawRun takes all attempts of a run out of their queues.
func (t *tasks) withdrawRun(r *run) {
	var of []*offered
	for _, o := range t.offers {
		if o.run == r {
			of = append(of, o)
		}
	}
	slices.SortFunc(of, func(a, b *offered) int { return cmp.Compare(a.order, b.order) })
	for _, o := range of {
		t.withdraw(o.token())
	}
}

// match lists a queue whose waiting attempts may find a worker.
func (t *tasks) match(q *taskQueue) {
	if !q.listed && q.waiting.Len() > 0 {
		q.listed = true
		t.matches = append(t.matches, q)
	}
}

// wanted lists a queue for which a slot may be free. Where nothing waits any more the slot is left to other partitions.
func (t *tasks) wanted(key queueKey) {
	q := t.queue(key)
	if q.waiting.Len() == 0 {
		t.matcher.leave(t.seat, key)
	}
	t.match(q)
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

// hold notes an attempt whose start is recorded, with the slot that was taken for it.
func (t *tasks) hold(tok core.Token) {
	if t.taken.of != nil {
		t.held[tok] = hold{slot: t.taken}
		t.taken = slot{}
	}
}

// give gives an attempt to its worker, if it is still held.
func (t *tasks) give(task core.Task) {
	if h, ok := t.held[task.Token]; ok {
		h.given = true
		t.held[task.Token] = h
		h.slot.of.workers.Dispatch(task)
	}
}

// revoke has the worker of an attempt stop it.
func (t *tasks) revoke(tok core.Token, why policy.Kind) {
	if h, ok := t.held[tok]; ok {
		h.slot.of.workers.Revoke(tok, why)
	} else {
		t.matcher.revoke(tok, why)
	}
}

// close gives all slots back, when the partition is of no more use.
func (t *tasks) close() {
	for _, h := range t.held {
		t.matcher.release(t.seat, h.slot)
	}
	clear(t.held)
}

// release frees the slot of an attempt whose work is over.
func (t *tasks) release(tok core.Token) {
	h, ok := t.held[tok]
	if !ok {
		return
	}
	delete(t.held, tok)
	t.freed(h.slot)
}

// dropUngiven forgets the attempts that no worker has got, after their starts were not saved.
func (t *tasks) dropUngiven() {
	for tok, h := range t.held {
		if !h.given {
			delete(t.held, tok)
			t.matcher.release(t.seat, h.slot)
			continue
		}
		t.alive[tok] = true
	}
}

// rematch lists all queues again, and the attempts that waited for their function.
func (t *tasks) rematch() {
	for _, o := range t.offers {
		t.unpark(o)
	}
	keys := slices.SortedFunc(maps.Keys(t.queues), func(a, b queueKey) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.taskType, b.taskType), cmp.Compare(a.rank(), b.rank()))
	})
	for _, k := range keys {
		t.match(t.queues[k])
	}
}

// offer starts the attempt at once if nothing waits before it and a worker is free, else it queues it.
func (p *Partition) offer(r *run, e core.Offer) {
	q := p.tasks.queue(queueKey{e.Queue, e.Type, e.Suspect})
	begins := p.begins(r, e.Step)
	if begins && q.waiting.Len() == 0 && p.tasks.take(q) {
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

// begin records the start of an attempt for which a slot was taken. Where it comes too late (its deadline has passed, it was
// withdrawn) the machine refuses it, and the slot is given back.
func (p *Partition) begin(r *run, step core.StepID, attempt int) {
	worker := p.tasks.taken.of.name
	if worker == "" {
		worker = p.cfg.Owner
	}
	_ = p.advance(r, nil, core.TaskStarted{Step: step, Attempt: attempt, Worker: worker})
	p.tasks.giveBack()
}

// handOut gives the first waiting attempt of a queue to a free worker.
func (p *Partition) handOut(q *taskQueue) {
	if q.waiting.Len() == 0 || !p.tasks.take(q) {
		return
	}
	o := q.waiting.First()
	p.tasks.unqueue(o)
	if o.parked = !p.begins(o.run, o.step); o.parked {
		p.tasks.giveBack()
	} else {
		delete(p.tasks.offers, o.token())
		p.begin(o.run, o.step, o.attempt)
	}
	p.tasks.match(q)
}

// Match says that a slot of a task queue may be free; see Config.Wake.
func (p *Partition) Match(queue, taskType string, now core.Time) {
	p.at(now)
	p.tasks.wanted(queueKey{queue, taskType, false})
	p.tasks.wanted(queueKey{queue, taskType, true})
	p.settle()
}

// RevokeAll has the workers stop all attempts, when somebody else owns the partition and makes them again.
func (p *Partition) RevokeAll() {
	toks := slices.SortedFunc(maps.Keys(p.tasks.held), func(a, b core.Token) int {
		return cmp.Or(bytes.Compare(a.Run[:], b.Run[:]), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Attempt, b.Attempt))
	})
	for _, tok := range toks {
		if p.tasks.held[tok].given {
			p.tasks.revoke(tok, policy.KindLost)
		}
	}
}

// Rematch asks the workers again how much they take, and the bodies what they can begin, after that has changed.
func (p *Partition) Rematch(now core.Time) {
	p.at(now)
	p.tasks.rematch()
	p.settle()
}
