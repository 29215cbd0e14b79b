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
	*base
	heart
	residents *residents
	tasks     *tasks
	pipeline  *pipeline

	limiter *limit.Limiter
	client  *limit.Client
	tickets map[core.RunID]*limit.Ticket // the runs whose queues have limits
	asking  []*run                       // runs that ask their queues when the current input is done
	loading bool                         // the limiter waits until all places of this partition are counted
}

// admissionTask takes the place of a task type where the limiter wakes a partition for a run.
const admissionTask = "admission of a run"

// startLoad tells the matcher that not all runs of this partition have been read. Until finishLoad, no queue of runs
// admits any.
func (a *admissions) startLoad() {
	if !a.loading {
		a.loading = true
		a.tasks.matcher.StartLoad()
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
// does not know what happens to these runs.
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
func (a *admissions) finishLoad() {
	if a.loading && a.residents.activeRead && a.residents.restored.len() == 0 {
		a.loading = false
		a.tasks.matcher.FinishLoad(a.tasks.client)
		a.tasks.listSuspects()
	}
}

// followQueue updates the limiter's view of a run with the run's state, after each entry.
func (a *admissions) followQueue(r *run) {
	s := r.state
	if s.Admission == nil || s.Phase.Closed() {
		return // a.closed handles a run that has closed
	}
	t := a.tickets[r.id()]
	switch waits := s.InQueue() && s.PausedAt == 0 && !r.rests; {
	case waits && t == nil:
		a.asking = append(a.asking, r)
	case s.HasPlace() && t == nil:
		a.takePlace(r)
	case t != nil && !waits && !s.HasPlace():
		a.leaveQueue(r) // it is paused, or ends before it has begun
	}
}

// queueBound returns the limits of a run's queue; none: nothing bounds the run. Retries and breakers are about
// attempts.
func (a *admissions) queueBound(r *run) []limit.Bound {
	var ofDef map[string]*policy.QueueLimits
	if def := r.state.Attached(); def != nil {
		ofDef = def.Queues
	}
	name := r.state.Admission.Queue.Name
	l, since := limitsOf(a.cfg.Queues, ofDef, name, r)
	if l == nil {
		return nil
	}
	own := *l
	own.Retries, own.Breaker = policy.Rate{}, policy.Breaker{}
	if own.Zero() {
		return nil
	}
	return []limit.Bound{{Resource: limit.Resource{Runs: true, Name: name}, Limits: &own, Since: since}}
}

// newTicket makes a run known to the limiter, or nil if nothing bounds it.
func (a *admissions) newTicket(r *run) *limit.Ticket {
	bounds := a.queueBound(r)
	if bounds == nil {
		return nil
	}
	in := r.state.Admission
	t := &limit.Ticket{
		Token: core.Token{Run: r.id(), Step: core.NoStep}, Client: a.client,
		Queue: in.Queue.Name, Type: admissionTask,
		Priority: in.Queue.Priority, Order: uint64(max(in.Entered, 1)), Name: r.state.WorkflowID,
	}
	a.tickets[r.id()] = t
	a.limiter.Add(t, in.Queue.Key, bounds, core.Held{}, 0, a.now)
	return t
}

// takePlace counts the place of a run that was admitted before.
func (a *admissions) takePlace(r *run) {
	if t := a.newTicket(r); t != nil {
		a.limiter.TakePlace(t)
	}
}

// askQueues asks for admission of the runs that have reached their queues. Of those that arrived together, the ones
// with priority ask first.
func (a *admissions) askQueues() {
	for len(a.asking) > 0 {
		asking := a.asking
		a.asking = nil
		slices.SortStableFunc(asking, func(a, b *run) int {
			return cmp.Compare(b.state.Admission.Queue.Priority, a.state.Admission.Queue.Priority)
		})
		for _, r := range asking {
			a.askFirst(r)
		}
	}
}

// askFirst asks for admission of a run that has no ticket yet.
func (a *admissions) askFirst(r *run) {
	waits := r.aside == nil && a.residents.runs[r.id()] == r && r.state.InQueue() && r.state.PausedAt == 0
	if !waits || a.tickets[r.id()] != nil {
		return
	}
	if t := a.newTicket(r); t != nil {
		a.askQueue(r, t)
	} else {
		_ = a.heart.advance(r, nil, core.Admitted{})
	}
}

// askQueue asks the limiter to admit a run. If it does not, the reason is recorded.
func (a *admissions) askQueue(r *run, t *limit.Ticket) {
	held, ok := a.limiter.Start(t, a.now)
	switch {
	case !ok && held.Reason != core.HeldNone:
		a.recordRunHeld(r, held)
	case !ok: // not all places are counted yet
	case a.heart.advance(r, nil, core.Admitted{}) != nil: // a limit of the run is due, which ends it
		if a.tickets[r.id()] == t {
			delete(a.tickets, r.id())
		}
		a.limiter.Undo(t)
	}
}

func (a *admissions) recordRunHeld(r *run, held core.Held) {
	if r.state.HeldNow() != held {
		_ = a.heart.advance(r, nil, core.NotAdmitted{Held: held})
	}
}

// takeTurn begins a run whose turn it is.
func (a *admissions) takeTurn(t *limit.Ticket) {
	if r := a.residents.runs[t.Token.Run]; r != nil && a.tickets[t.Token.Run] == t {
		a.askQueue(r, t)
	}
}

// notice records that a run is held for another reason now.
func (a *admissions) notice(n limit.Notice) {
	r := a.residents.runs[n.Token.Run]
	if r != nil && a.tickets[n.Token.Run] == n.Ticket && !n.Ticket.Running() {
		a.recordRunHeld(r, n.Held)
		a.heart.settle()
	}
}

// leaveQueue removes a run from the limiter that does not go on now: it is paused, ends without a place, or is set
// aside.
func (a *admissions) leaveQueue(r *run) {
	if t := a.tickets[r.id()]; t != nil {
		delete(a.tickets, r.id())
		a.limiter.Leave(t, a.now)
	}
}

// freePlace frees the place of a run that has ended, when its end is durable.
func (a *admissions) freePlace(r *run) {
	t := a.tickets[r.id()]
	if t == nil {
		return
	}
	if !t.Running() {
		a.leaveQueue(r)
		return
	}
	delete(a.tickets, r.id())
	a.pipeline.open.freed = append(a.pipeline.open.freed, t)
}

// leaveLoad ends the counting of places of this partition, so that others need not wait for it.
func (a *admissions) leaveLoad() {
	if a.loading {
		a.loading = false
		a.tasks.matcher.FinishLoad(a.tasks.client)
	}
}
