package engine

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/policy"
)

// admissions are the open runs of queues: those that wait to begin, and those that have places. All of them stay in
// memory, so that each place is counted. The limiter counts the places of all partitions of the process.
//
// A place that a run has left is free when the run's end is durable. Otherwise a run of another partition could begin
// with it, and after a crash both would be open.
type admissions struct {
	limiter *limit.Limiter
	client  *limit.Client
	tickets map[core.RunID]*limit.Ticket // the runs whose queues have limits
	asking  []*run                       // runs that ask their queues when the input at hand is done
	loading bool                         // the limiter waits until all places of this partition are counted
}

// admissionTask takes the place of a task type where the limiter wakes a partition for a run.
const admissionTask = "admission of a run"

// startLoad tells the matcher that not all runs of this partition are read. Until finishLoad, no queue of runs admits
// any.
func (p *Partition) startLoad() {
	if !p.admissions.loading {
		p.admissions.loading = true
		p.tasks.matcher.StartLoad()
	}
}

// forget takes all runs from the limiter.
func (a *admissions) forget() {
	for _, t := range a.sorted() {
		a.limiter.Leave(t, 0)
	}
	a.tickets, a.asking = make(map[core.RunID]*limit.Ticket), nil
}

// leaveWaiting takes the runs that wait from the limiter, because the partition ends. Places stay taken: this process
// does not know what becomes of these runs.
func (a *admissions) leaveWaiting() {
	for _, t := range a.sorted() {
		if !t.Running() {
			delete(a.tickets, t.Token.Run)
			a.limiter.Leave(t, 0)
		}
	}
}

func (a *admissions) sorted() []*limit.Ticket {
	all := make([]*limit.Ticket, 0, len(a.tickets))
	for _, t := range a.tickets {
		all = append(all, t)
	}
	slices.SortFunc(all, (*limit.Ticket).Compare)
	return all
}

// finishLoad tells the matcher that the active runs were read and those that were restored are recovered. So all places
// of this partition are counted, and what remote workers execute.
func (p *Partition) finishLoad() {
	if p.admissions.loading && p.residents.activeRead && p.residents.restored.len() == 0 {
		p.admissions.loading = false
		p.tasks.matcher.FinishLoad(p.tasks.client)
		p.tasks.listSuspects()
	}
}

// followQueue keeps what the limiter knows of a run in line with its state, after each entry.
func (p *Partition) followQueue(r *run) {
	s := r.state
	if s.Admission == nil || s.Phase.Closed() {
		return // p.closed handles a run that has closed
	}
	t := p.admissions.tickets[r.id()]
	switch waits := s.InQueue() && s.PausedAt == 0 && !r.rests; {
	case waits && t == nil:
		p.admissions.asking = append(p.admissions.asking, r)
	case s.HasPlace() && t == nil:
		p.takePlace(r)
	case t != nil && !waits && !s.HasPlace():
		p.leaveQueue(r) // it is paused, or ends before it has begun
	}
}

// queueBound returns the limits of a run's queue; none: nothing bounds the run. Retries and breakers are about
// attempts.
func (p *Partition) queueBound(r *run) []limit.Bound {
	var ofDef map[string]*policy.QueueLimits
	if def := r.state.Attached(); def != nil {
		ofDef = def.Queues
	}
	name := r.state.Admission.Queue.Name
	l, since := limitsOf(p.cfg.Queues, ofDef, name, r)
	if l == nil {
		return nil
	}
	own := *l
	own.Retries, own.Breaker = policy.Rate{}, policy.Breaker{}
	if own.Zero() {
		return nil
	}
	return []limit.Bound{{Place: limit.Place{Runs: true, Name: name}, Limits: &own, Since: since}}
}

// newTicket makes a run known to the limiter; nil: nothing bounds it.
func (p *Partition) newTicket(r *run) *limit.Ticket {
	bounds := p.queueBound(r)
	if bounds == nil {
		return nil
	}
	a := r.state.Admission
	t := &limit.Ticket{
		Token: core.Token{Run: r.id(), Step: core.NoStep}, Client: p.admissions.client,
		Queue: a.Queue.Name, Type: admissionTask,
		Priority: a.Queue.Priority, Order: uint64(max(a.Entered, 1)),
	}
	p.admissions.tickets[r.id()] = t
	p.admissions.limiter.Add(t, a.Queue.Key, bounds, core.Held{}, 0, p.now)
	return t
}

// takePlace counts the place of a run that was admitted before.
func (p *Partition) takePlace(r *run) {
	if t := p.newTicket(r); t != nil {
		p.admissions.limiter.TakePlace(t)
	}
}

// askQueues lets the runs that have come to their queues ask for admission. Of those that came at once, the ones with
// priority ask first.
func (p *Partition) askQueues() {
	for len(p.admissions.asking) > 0 {
		asking := p.admissions.asking
		p.admissions.asking = nil
		slices.SortStableFunc(asking, func(a, b *run) int {
			return cmp.Compare(b.state.Admission.Queue.Priority, a.state.Admission.Queue.Priority)
		})
		for _, r := range asking {
			p.askFirst(r)
		}
	}
}

// askFirst lets a run ask for admission that has no ticket yet.
func (p *Partition) askFirst(r *run) {
	waits := r.aside == nil && p.residents.runs[r.id()] == r && r.state.InQueue() && r.state.PausedAt == 0
	if !waits || p.admissions.tickets[r.id()] != nil {
		return
	}
	if t := p.newTicket(r); t != nil {
		p.askQueue(r, t)
	} else {
		_ = p.advance(r, nil, core.Admitted{})
	}
}

// askQueue asks the limiter to admit a run. If it does not, the reason is recorded.
func (p *Partition) askQueue(r *run, t *limit.Ticket) {
	held, ok := p.admissions.limiter.Start(t, p.now)
	switch {
	case !ok && held.Reason != core.HeldNone:
		p.recordRunHeld(r, held)
	case !ok: // not all places are counted yet
	case p.advance(r, nil, core.Admitted{}) != nil: // a limit of the run is due, which ends it
		if p.admissions.tickets[r.id()] == t {
			delete(p.admissions.tickets, r.id())
		}
		p.admissions.limiter.Undo(t)
	}
}

func (p *Partition) recordRunHeld(r *run, held core.Held) {
	if r.state.HeldNow() != held {
		_ = p.advance(r, nil, core.NotAdmitted{Held: held})
	}
}

// takeRunTurn lets a run begin whose turn it is.
func (p *Partition) takeRunTurn(t *limit.Ticket) {
	if r := p.residents.runs[t.Token.Run]; r != nil && p.admissions.tickets[t.Token.Run] == t {
		p.askQueue(r, t)
	}
}

// noticeRun records that a run is held for another reason now.
func (p *Partition) noticeRun(n limit.Notice) {
	r := p.residents.runs[n.Token.Run]
	if r != nil && p.admissions.tickets[n.Token.Run] == n.Ticket && !n.Ticket.Running() {
		p.recordRunHeld(r, n.Held)
		p.settle()
	}
}

// leaveQueue takes a run from the limiter that does not go on now: it is paused, ends without a place, or is set aside.
func (p *Partition) leaveQueue(r *run) {
	if t := p.admissions.tickets[r.id()]; t != nil {
		delete(p.admissions.tickets, r.id())
		p.admissions.limiter.Leave(t, p.now)
	}
}

// freePlace frees the place of a run that has ended, when its end is durable.
func (p *Partition) freePlace(r *run) {
	t := p.admissions.tickets[r.id()]
	if t == nil {
		return
	}
	if !t.Running() {
		p.leaveQueue(r)
		return
	}
	delete(p.admissions.tickets, r.id())
	p.pipeline.open.freed = append(p.pipeline.open.freed, t)
}
