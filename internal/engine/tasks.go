package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/policy"
)

// tasks holds the attempts that wait for a worker and those that a worker executes. It knows nothing about batches, and
// its heart decides what a run does next.
type tasks struct {
	*base
	heart

	queues    map[slots.Key]*taskQueue
	apart     []*taskQueue          // those of suspects
	offers    map[core.Token]*offer // attempts that wait for a worker or for their function
	lastOrder uint64                // the order of the newest offer
	toMatch   []*taskQueue          // queues whose first attempt may find a free slot now
	held      map[core.Token]hold   // attempts that have a slot of a worker
	alive     map[core.Token]bool   // attempts that workers went on with while the partition reloaded its memory

	matcher  *slots.Matcher
	client   *limit.Client
	reserved slots.Slot // the slot of the attempt that is about to start; zero: no slot is reserved

	admitted *limit.Ticket // the ticket of the attempt that is about to start; nil: no limit bounds it
	tickets  int           // attempts, waiting or with a slot, that such limits bound
}

// taskQueue holds the attempts that wait for a worker.
type taskQueue struct {
	key     slots.Key
	waiting heap.Heap[*offer]
	listed  bool     // it is in tasks.toMatch
	turns   []*offer // those that wait here because the limiter offers them a turn
}

// offer is an attempt that waits. Higher priority goes first, then first come, first served.
type offer struct {
	run           *run
	step          core.StepID
	attempt       int
	prio          int32
	order         uint64
	queue         *taskQueue
	place         int
	needsFunction bool // it is not in the queue, because its body has not reached the function yet

	ticket   *limit.Ticket // nil: no limit of a queue or service bounds it
	heldBack bool          // it is not in the queue, because such a limit holds it
}

func (o *offer) token() core.Token {
	return core.Token{Run: o.run.id(), Step: o.step, Attempt: o.attempt}
}

// Before orders offers by priority, then by age.
func (o *offer) Before(other *offer) bool {
	if o.prio != other.prio {
		return o.prio > other.prio
	}
	return o.order < other.order
}

// Moved notes the offer's place in its queue.
func (o *offer) Moved(to int) { o.place = to }

// hold is an attempt that has a slot. The slot stays taken until the worker reports that the work is over, even if the
// attempt ends earlier, for example because a limit expired.
type hold struct {
	slot       slots.Slot
	dispatched bool // the start of the attempt is durable, and the worker has the task
	ticket     *limit.Ticket
}

func newTasks(b *base, h heart) tasks {
	return tasks{
		base: b, heart: h, queues: make(map[slots.Key]*taskQueue), held: make(map[core.Token]hold),
		matcher: b.cfg.Matcher, client: &limit.Client{Wake: b.cfg.Wake},
	}
}

// forget drops the attempts that wait. It keeps those that workers execute.
func (t *tasks) forget() {
	t.leaveAll()
	t.offers = make(map[core.Token]*offer)
	t.toMatch = nil
	for _, q := range t.queues {
		q.waiting, q.listed, q.turns = heap.Heap[*offer]{}, false, nil
		t.matcher.Leave(t.client, q.key)
	}
}

func (t *tasks) queue(key slots.Key) *taskQueue {
	q := t.queues[key]
	if q == nil {
		q = &taskQueue{key: key}
		t.queues[key] = q
		if key.Group > 0 {
			t.apart = append(t.apart, q)
		}
	}
	return q
}

// add makes an attempt wait, or returns nil if it already waits. If it needs its function first, it stays outside its
// queue until enqueue puts it there.
func (t *tasks) add(r *run, e core.Offer, needsFunction bool) *offer {
	t.lastOrder++
	o := &offer{
		run: r, step: e.Step, attempt: e.Attempt, prio: e.Prio, order: t.lastOrder,
		queue: t.queue(slots.Key{Queue: e.Queue, Type: e.Type, Group: e.Group}), needsFunction: needsFunction,
	}
	if t.offers[o.token()] != nil {
		return nil
	}
	t.offers[o.token()] = o
	if o.needsFunction {
		return o
	}
	o.queue.waiting.Push(o)
	t.listForMatch(o.queue)
	return o
}

// enqueue puts an attempt into its queue after it waited for its function. It gets the place that it would have had
// without that wait.
func (t *tasks) enqueue(o *offer) {
	if o.needsFunction {
		o.needsFunction = false
		o.queue.waiting.Push(o)
	}
}

// withdraw removes an attempt: it no longer waits.
func (t *tasks) withdraw(tok core.Token) {
	o := t.offers[tok]
	if o == nil {
		return
	}
	delete(t.offers, tok)
	if !o.needsFunction && !o.heldBack {
		t.dequeue(o)
	}
	t.leave(o.ticket)
}

// dequeue takes an offer out of its queue. If the queue is empty now, the partition stops asking for slots for it.
func (t *tasks) dequeue(o *offer) {
	o.queue.waiting.Remove(o.place)
	if o.queue.waiting.Len() == 0 {
		t.matcher.Leave(t.client, o.queue.key)
	}
}

// withdrawRun removes all waiting attempts of a run, the oldest first.
func (t *tasks) withdrawRun(r *run) {
	var offers []*offer
	for _, o := range t.offers {
		if o.run == r {
			offers = append(offers, o)
		}
	}
	slices.SortFunc(offers, func(a, b *offer) int { return cmp.Compare(a.order, b.order) })
	for _, o := range offers {
		t.withdraw(o.token())
	}
}

// reserve takes a slot for the next attempt of a queue. It returns false if no slot is free. When a suspect has one,
// others may join its group.
func (t *tasks) reserve(q *taskQueue) bool {
	s, free := t.matcher.Take(t.client, q.key)
	if !free {
		return false
	}
	t.reserved = s
	if q.key.Group > 1 {
		t.listSuspects()
	}
	return true
}

func (t *tasks) listSuspects() {
	for _, q := range t.apart {
		t.listForMatch(q)
	}
}

// claim makes the reserved slot one in the place where an attempt can begin, and reports whether one was free there.
func (t *tasks) claim(r *run, tok core.Token) bool {
	placed := t.reserved.Of.Placed
	if placed == nil {
		return true
	}
	if !placed.Claim(tok, r.state.Workflow, r.state.Steps[tok.Step].Spec.Type) {
		return false
	}
	t.reserved.Claims = tok
	return true
}

// unreserve gives the reserved slot back if the attempt that it was for did not start.
func (t *tasks) unreserve() {
	if s := t.reserved; s.Of != nil {
		t.reserved = slots.Slot{}
		t.unadmit()
		t.free(s)
	}
}

// free gives a slot back. The attempts that can use it now are those of its queue. After a suspect's slot all other
// suspects may go on as well.
func (t *tasks) free(s slots.Slot) {
	t.matcher.Release(t.client, s)
	t.listForMatch(t.queue(s.Key.Ordinary()))
	for _, q := range t.apart {
		if s.Key.Group > 0 || q.key.Ordinary() == s.Key {
			t.listForMatch(q)
		}
	}
}

// hold gives the reserved slot to an attempt whose start was recorded.
func (t *tasks) hold(tok core.Token) {
	if t.reserved.Of != nil {
		t.held[tok] = hold{slot: t.reserved, ticket: t.admitted}
		t.reserved, t.admitted = slots.Slot{}, nil
	}
}

// do does the task of an attempt whose workers do it on the spot. It returns false if they do not.
func (t *tasks) do(task *core.Task) (core.TaskEnded, bool) {
	if w := t.held[task.Token].slot.Of; w != nil && w.Instant != nil {
		return w.Instant.Do(*task)
	}
	return core.TaskEnded{}, false
}

// dispatch hands an attempt to its worker, unless its slot was released meanwhile.
func (t *tasks) dispatch(task core.Task) {
	if h, ok := t.held[task.Token]; ok {
		h.dispatched, h.slot.Used = true, true
		t.held[task.Token] = h
		h.slot.Of.Workers.Dispatch(task)
	}
}

// revoke tells the worker of an attempt to stop it.
func (t *tasks) revoke(tok core.Token, why policy.Kind) {
	if h, ok := t.held[tok]; ok {
		h.slot.Of.Workers.Revoke(tok, why)
	} else {
		t.matcher.Revoke(tok, why)
	}
}

// release frees the slot of an attempt whose work is over.
func (t *tasks) release(tok core.Token) {
	h, ok := t.held[tok]
	if !ok {
		return
	}
	delete(t.held, tok)
	t.leave(h.ticket)
	t.free(h.slot)
}

// close gives all slots back, because the partition ends.
func (t *tasks) close() {
	for _, tok := range t.withSlots() {
		h := t.held[tok]
		t.leave(h.ticket)
		t.matcher.Release(t.client, h.slot)
	}
	clear(t.held)
}

// dropUndispatched forgets the attempts that no worker has, because their starts could not be saved. The others are
// alive: their workers go on with them.
func (t *tasks) dropUndispatched() {
	for _, tok := range t.withSlots() {
		if h := t.held[tok]; !h.dispatched {
			delete(t.held, tok)
			t.leave(h.ticket)
			t.matcher.Release(t.client, h.slot)
			continue
		}
		t.alive[tok] = true
	}
}

// listForMatch lists a queue whose first attempt may find a free slot now.
func (t *tasks) listForMatch(q *taskQueue) {
	if !q.listed && q.waiting.Len() > 0 {
		q.listed = true
		t.toMatch = append(t.toMatch, q)
	}
}

// slotMayBeFree lists a queue after the matcher said that a slot may be free for it. If nothing waits in the queue any
// longer, the slot goes to other partitions.
func (t *tasks) slotMayBeFree(q *taskQueue) {
	if q.waiting.Len() == 0 {
		t.matcher.Leave(t.client, q.key)
	}
	t.listForMatch(q)
}

// nextToMatch takes the first queue off the list. It returns nil if the list is empty.
func (t *tasks) nextToMatch() *taskQueue {
	n := len(t.toMatch)
	if n == 0 {
		return nil
	}
	q := t.toMatch[0]
	copy(t.toMatch, t.toMatch[1:])
	t.toMatch = t.toMatch[:n-1]
	q.listed = false
	return q
}

// listAll lists all queues. Attempts that waited for their function go back into their queues, so that the bodies are
// asked about them again.
func (t *tasks) listAll() {
	for _, o := range t.offers {
		t.enqueue(o)
	}
	keys := slices.SortedFunc(maps.Keys(t.queues), func(a, b slots.Key) int {
		return cmp.Or(
			cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group),
		)
	})
	for _, k := range keys {
		t.listForMatch(t.queues[k])
	}
}

// offer starts an attempt at once if a slot is free and no other attempt waits before it. Otherwise the attempt waits.
// decided says that the body of the run has just begun the step.
func (t *tasks) offer(r *run, e core.Offer, decided bool) {
	q := t.queue(slots.Key{Queue: e.Queue, Type: e.Type, Group: e.Group})
	// A body knows the functions of the steps that it begins, so it need not be asked.
	ready := decided && e.Attempt == 1 || r.hasFunction(e.Step)
	bounds := t.bounds(r, e.Step)
	if ready && bounds == nil && q.waiting.Len() == 0 && t.reserve(q) {
		if t.claim(r, core.Token{Run: r.id(), Step: e.Step, Attempt: e.Attempt}) {
			t.startAttempt(r, e.Step, e.Attempt)
			return
		}
		t.unreserve()
		ready = false // the attempt waits for a slot where its function is
	}
	if o := t.add(r, e, !ready); o != nil && bounds != nil {
		t.bind(o, bounds)
	}
}

// hasFunction reports whether the task's function can be called now. If the function is a closure in a Go body, the
// body must first run up to it. Until then the attempt does not start, so that none of its limits run.
func (r *run) hasFunction(step core.StepID) bool {
	if r.kind.Bodies == nil {
		return true
	}
	s := &r.state.Steps[step]
	return r.kind.Bodies.CanBegin(r.id(), r.state.Workflow, s.Spec.Name, s.Spec.Type)
}

// startAttempt records the start of an attempt, for which a slot is reserved. The machine refuses a start that comes
// too late, for example after the deadline. Then the slot is given back.
func (t *tasks) startAttempt(r *run, step core.StepID, attempt int) {
	s := t.reserved
	worker := cmp.Or(s.Seat.Worker, s.Of.Name, t.cfg.Owner)
	_ = t.advance(r, nil, core.TaskStarted{
		Step: step, Attempt: attempt, Worker: worker, Secret: s.Seat.Secret, Confirms: s.Seat.Confirms,
	})
	t.unreserve()
}

// startNext starts the first waiting attempt of a queue if a slot is free.
func (t *tasks) startNext(q *taskQueue) {
	if q.waiting.Len() == 0 || !t.reserve(q) {
		t.passTurns(q)
		return
	}
	o := q.waiting.First()
	t.dequeue(o)
	switch {
	case !o.run.hasFunction(o.step), !t.claim(o.run, o.token()):
		o.needsFunction = true
		t.pass(o)
		t.unreserve()
	case o.ticket == nil || t.admit(o):
		delete(t.offers, o.token())
		t.startAttempt(o.run, o.step, o.attempt)
	}
	t.listForMatch(q)
}

// revokeOwn stops the attempts of workers in this process. Those of workers in other processes go on, since the next
// owner takes their reports.
func (t *tasks) revokeOwn() {
	for _, tok := range t.withSlots() {
		if h := t.held[tok]; h.dispatched && h.slot.Of.Remote == nil {
			t.revoke(tok, policy.KindLost)
		}
	}
}

// revokeAll tells the workers to stop all attempts of this partition. It is used when another engine owns the partition
// and starts these attempts again.
func (t *tasks) revokeAll() {
	for _, tok := range t.withSlots() {
		if t.held[tok].dispatched {
			t.revoke(tok, policy.KindLost)
		}
	}
}

// BeginCall reports that the function of a step can be called now: its body has reached it. The attempt of the step
// goes into its queue.
type BeginCall struct {
	telling
	Run  core.RunID
	Step core.StepID
}

func (*BeginCall) op() string { return "body" }

func (c *BeginCall) do(p *Partition) {
	r := p.residents.runs[c.Run]
	if r == nil || r.aside != nil || int(c.Step) >= len(r.state.Steps) {
		return
	}
	o := p.tasks.offers[core.Token{Run: c.Run, Step: c.Step, Attempt: r.state.Steps[c.Step].Attempt}]
	if o != nil && o.needsFunction {
		p.tasks.enqueue(o)
		p.tasks.listForMatch(o.queue)
	}
}

// Match starts waiting attempts of a task queue for which a slot may be free. The driver calls it after Config.Wake.
func (p *Partition) Match(queue, taskType string, now core.Time) {
	p.at(now)
	if taskType != admissionTask {
		key := slots.Key{Queue: queue, Type: taskType}
		p.tasks.slotMayBeFree(p.tasks.queue(key))
		for _, q := range p.tasks.apart {
			if q.key.Ordinary() == key {
				p.tasks.slotMayBeFree(q)
			}
		}
	}
	p.settle()
}

// Rematch looks at all waiting attempts again. The driver calls it when workers or bodies may take attempts that they
// could not take before.
func (p *Partition) Rematch(now core.Time) {
	p.at(now)
	p.carryAdded()
	p.tasks.listAll()
	p.settle()
}
