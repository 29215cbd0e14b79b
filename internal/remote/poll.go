package remote

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// poll is a worker that waits for tasks. The lock of Queues guards its fields.
type poll struct {
	api.PollRequest
	room    int // tasks that it wants and for which no seat is reserved
	seats   int // number of reserved seats: their tasks come soon
	tasks   []core.Task
	full    bool // it takes no further seats, but waits for those that are reserved
	left    bool // nobody gets its tasks any longer
	settled chan struct{}
}

// takes reports whether a worker that asked for some types takes tasks of a type.
func (q *Queues) takes(types []string, taskType string) bool {
	if len(types) == 0 {
		return !slices.Contains(q.cfg.Own, taskType)
	}
	return slices.Contains(types, taskType)
}

// settle tells the worker that its tasks are there, if they are.
func (p *poll) settle() {
	if p.full && p.seats == 0 {
		select {
		case <-p.settled:
		default:
			close(p.settled)
		}
	}
}

// The limits on the requests of a poll.
const (
	maxTasks = 1000
	maxTypes = 1000
	maxWait  = time.Minute

	// leastWait is how long a poll waits that does not want to wait: the engine needs a moment to look for tasks.
	leastWait = 50 * time.Millisecond
)

func (q *Queues) Poll(ctx context.Context, r api.PollRequest) ([]api.Task, error) {
	if err := q.check(&r); err != nil {
		return nil, err
	}
	p := &poll{PollRequest: r, room: r.Max, settled: make(chan struct{})}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil, &api.Error{
			Code: api.CodeClosed, Op: "poll", Message: "the server stops", Hint: "ask again when it runs again",
		}
	}
	q.polls[r.Queue] = append(q.polls[r.Queue], p)
	q.noteVisit(p)
	q.mu.Unlock()
	q.cfg.Engine.Offered(r.Queue, func(taskType string) bool { return q.takes(p.Types, taskType) })

	wait := time.NewTimer(min(max(r.Wait.Std(), leastWait), maxWait))
	defer wait.Stop()
	select {
	case <-p.settled:
	case <-wait.C:
		q.stopSeating(p)
	case <-q.closing:
		q.stopSeating(p)
	case <-ctx.Done():
		q.stopSeating(p)
	}
	select {
	case <-p.settled: // soon: what has a seat comes with the next commit
	case <-ctx.Done():
	}
	return q.leave(ctx, p)
}

// check refuses a poll that makes no sense, and fills in defaults.
func (q *Queues) check(r *api.PollRequest) error {
	r.Max = cmp.Or(r.Max, 1)
	wrong := ""
	switch {
	case r.Max < 0 || r.Max > maxTasks:
		wrong = fmt.Sprintf("max is %d; it is 1 to %d", r.Max, maxTasks)
	case len(r.Types) > maxTypes:
		wrong = fmt.Sprintf("%d types are given, more than %d", len(r.Types), maxTypes)
	case r.Wait < 0:
		wrong = "wait is negative"
	}
	for _, t := range r.Types {
		if slices.Contains(q.cfg.Own, t) {
			wrong = fmt.Sprintf("type %q: the engine executes these tasks itself", t)
		}
	}
	if wrong == "" {
		return nil
	}
	return &api.Error{Code: api.CodeInvalid, Op: "poll", Message: wrong}
}

// stopSeating makes a poll take no further seats.
func (q *Queues) stopSeating(p *poll) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.full = true
	p.settle()
}

// mayTake returns why a worker gets no more tasks: it has gone, or may have none.
func (p *poll) mayTake(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &api.Error{Code: api.CodeCancelled, Op: "poll", Err: err}
	}
	if p.May == nil {
		return nil
	}
	return p.May(ctx)
}

// leave ends a poll and returns its tasks. If the worker has gone, they go to others.
func (q *Queues) leave(ctx context.Context, p *poll) ([]api.Task, error) {
	q.mu.Lock()
	p.full, p.left = true, true
	polls := q.polls[p.Queue]
	if i := slices.Index(polls, p); i >= 0 {
		polls = slices.Delete(polls, i, i+1)
	}
	if q.polls[p.Queue] = polls; len(polls) == 0 {
		delete(q.polls, p.Queue)
	}
	q.noteVisit(p)
	tasks := p.tasks
	for _, t := range tasks {
		if a := q.attempts[t.Token]; a != nil {
			a.worker = p.Worker
		}
	}
	q.mu.Unlock()
	if err := p.mayTake(ctx); err != nil {
		for _, t := range tasks {
			q.giveBack(t.Token, notBegun("the worker had gone before it got the task"))
		}
		return nil, err
	}
	out := make([]api.Task, len(tasks))
	now := q.cfg.Now()
	for i, t := range tasks {
		out[i] = q.handOut(p, t, now)
	}
	return out, nil
}

// handOut returns a task as its worker gets it.
func (q *Queues) handOut(p *poll, t core.Task, now core.Time) api.Task {
	out := api.Task{
		Task: tokenText(t.Token, t.Secret), Run: t.Token.Run.String(), Workflow: t.Workflow, Step: t.StepName,
		Attempt: t.Token.Attempt, Counted: t.Count, Queue: t.Queue, Type: t.Type,
		Key: worker.IdempotencyKey(t.Token), Input: t.Payload, Details: t.Details,
		Headers: t.Headers.Map(), Left: leftOf(t, now),
	}
	if q.cfg.Trace != nil {
		out.Trace = q.cfg.Trace(t)
	}
	if p.Confirm {
		out.StartBy = api.Duration(q.cfg.StartWithin)
		q.mu.Lock()
		if a := q.attempts[t.Token]; a != nil && a.unconfirmed == nil {
			a.unconfirmed = time.AfterFunc(q.cfg.StartWithin, func() {
				q.giveBack(t.Token, notBegun("its worker did not start it in time"))
			})
		}
		q.mu.Unlock()
	}
	return out
}

// leftOf returns the rest of a task's clocks.
func leftOf(t core.Task, now core.Time) api.Left {
	l := api.Left{
		Heartbeat:  api.Duration(time.Duration(t.Heartbeat) * time.Microsecond),
		Inactivity: api.Duration(time.Duration(t.Inactivity) * time.Microsecond),
	}
	if t.Deadline != 0 {
		l.Deadline, l.Limit = api.Duration(max(t.Deadline.Sub(now), time.Microsecond)), t.Bound.String()
	}
	return l
}

// enough is how many seats are counted at most: nobody asks for more.
const enough = 1000

// Slots implements slots.Workers: it counts the seats that are free.
func (q *Queues) Slots(queue, taskType string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, p := range q.polls[queue] {
		if !p.full && q.takes(p.Types, taskType) {
			if n += p.room; n >= enough {
				break
			}
		}
	}
	return n
}

// free returns the poll that has waited longest with room for a task of the type, or nil if there is none. confirms:
// the task's record says that its worker confirms it.
func (q *Queues) free(queue, taskType string, confirms bool) *poll {
	for _, p := range q.polls[queue] {
		if !p.full && p.room > 0 && q.takes(p.Types, taskType) && (p.Confirm || !confirms) {
			return p
		}
	}
	return nil
}

// Reserve implements slots.RemoteWorkers. A poll may have left since its seat was counted. Then the seat is free, and
// the task goes to whichever poll has room when it comes.
func (q *Queues) Reserve(queue, taskType string) slots.Seat {
	secret := q.secret()
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.free(queue, taskType, false)
	q.seats[secret] = p
	if p == nil {
		return slots.Seat{Worker: "remote", Secret: secret}
	}
	p.room--
	p.seats++
	return slots.Seat{Worker: cmp.Or(p.Worker, "remote"), Secret: secret, Confirms: p.Confirm}
}

func (q *Queues) Return(s slots.Seat) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.unseat(s.Secret); p != nil {
		p.room++
		p.seats--
		p.settle()
	}
}

// unseat frees a reserved seat and returns its poll, which may have left; nil: the seat is nobody's.
func (q *Queues) unseat(secret uint64) *poll {
	p := q.seats[secret]
	delete(q.seats, secret)
	if q.drained != nil {
		q.drained()
	}
	return p
}

// Dispatch implements slots.Workers: the task goes to its seat.
func (q *Queues) Dispatch(t core.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.seatFor(q.unseat(t.Secret), &t)
	a := &attempt{task: t}
	q.attempts[t.Token] = a
	a.pulse.Begin(t, worker.Clock{Now: q.cfg.Now, Stands: q.cfg.Stands}, q.cfg.Engine)
	switch {
	case p == nil:
		q.give(a, notBegun(roomGone))
	case t.Announce:
		beat := core.Beat{Step: t.Token.Step, Attempt: t.Token.Attempt, At: q.cfg.Now()}
		q.cfg.Engine.Deliver(t.Token.Run, beat, func(err error) { q.announced(p, a, err) })
	default:
		p.take(&t)
	}
}

// roomGone explains why no worker has a task for which there was a seat.
const roomGone = "the worker that had room for it has gone"

// seatFor returns the poll that gets a task, with a seat for it: p, which has one reserved, or another one if p is nil
// or has left. nil: no poll has room.
func (q *Queues) seatFor(p *poll, t *core.Task) *poll {
	if p != nil && !p.left {
		return p
	}
	if p = q.free(t.Queue, t.Type, t.Confirms); p != nil {
		p.room--
		p.seats++
	}
	return p
}

// announced gives a task to a poll when it is durable that it begins, or when that was refused.
func (q *Queues) announced(p *poll, a *attempt, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil && !a.over && !a.revoked {
		if taker := q.seatFor(p, &a.task); taker != nil {
			taker.take(&a.task)
		} else {
			q.give(a, notBegun(roomGone))
		}
		return
	}
	p.take(nil)
	switch {
	case a.over:
	case isOver(api.CodeOf(err)) && !a.revoked:
		q.end(a) // the engine may still revoke it, and learns then that its work is gone
	default:
		q.give(a, notBegun("it could not be saved that it begins"))
	}
}

// take fills a reserved seat; nil: the task does not come. After that the poll waits only for tasks that are on their
// way: they were started in the same commits. A poll without a task ends, too: its room has gone with the seat, and its
// worker asks again, which tells the engine of the room.
func (p *poll) take(t *core.Task) {
	p.seats--
	if t != nil {
		p.tasks = append(p.tasks, *t)
	}
	p.full = true
	p.settle()
}

// giveBack lets another worker have an attempt whose own worker has not reported. why is the failure with which it
// ends.
func (q *Queues) giveBack(tok core.Token, why *policy.Failure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.attempts[tok]; a != nil && !a.confirmed {
		q.give(a, why)
	}
}

// give ends an attempt that no worker has, so that it is made again. If it was told to stop, it has stopped. It is
// called with the lock held.
func (q *Queues) give(a *attempt, why *policy.Failure) {
	tok := a.task.Token
	q.end(a)
	if a.revoked {
		q.stopped(tok, false, false)
		return
	}
	q.cfg.Engine.Report(tok.Run, core.TaskEnded{Step: tok.Step, Attempt: tok.Attempt, Failure: why})
}

// notBegun returns the failure of an attempt that has not begun. It counts for nothing, and is made again at once.
func notBegun(why string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindLost, Type: core.TypeNotBegun, Message: why}
}
