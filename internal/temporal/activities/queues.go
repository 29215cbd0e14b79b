package activities

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// EngineCalls are what the queues need of an engine.
type EngineCalls interface {
	worker.Reporter
	// Deliver reports, and calls done when the report is durable or was refused.
	Deliver(run core.RunID, in core.Input, done func(error))
	// Attempt returns how an attempt is doing.
	Attempt(ctx context.Context, tok core.Token) (engine.AttemptState, error)
	// Offered says that a worker has room for a task.
	Offered(queue string, takes func(taskType string) bool)
}

// Queues are the task queues of activities.
type Queues struct {
	engine  EngineCalls
	clock   worker.Clock
	closing chan struct{}
	over    chan struct{} // closed when the engine is

	mu       sync.Mutex
	closed   bool
	polls    map[string][]*poll // workers that wait, by queue, in the order in which they came
	seats    map[uint64]*poll   // reserved ones, by the secrets of their attempts; nil: nobody has it
	attempts map[core.Token]*attempt
}

var _ slots.RemoteWorkers = (*Queues)(nil)

// poll is a worker that waits for one task.
type poll struct {
	identity string
	queue    string
	task     chan core.Task // has room for the task
	returned chan struct{}  // has room for the word that its seat was given back
	leaves   bool           // it takes no more seats
}

func newPoll(queue, identity string) *poll {
	return &poll{
		identity: identity, queue: convert.QueuePrefix + queue, task: make(chan core.Task, 1),
		returned: make(chan struct{}, 1),
	}
}

// attempt is one that a worker has.
type attempt struct {
	secret uint64
	pulse  worker.Pulse
}

// New returns queues. Give them to the engine before it is opened. The clock is the engine's.
func New(clock worker.Clock) *Queues {
	return &Queues{
		clock: clock, closing: make(chan struct{}), over: make(chan struct{}), polls: map[string][]*poll{},
		seats: map[uint64]*poll{}, attempts: map[core.Token]*attempt{},
	}
}

// Attach tells the queues their engine.
func (q *Queues) Attach(e EngineCalls) { q.engine = e }

func (q *Queues) Serves(queue string) bool { return strings.HasPrefix(queue, convert.QueuePrefix) }

func (q *Queues) Slots(queue, _ string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.polls[queue])
}

// Reserve implements slots.RemoteWorkers. A worker may have left since its seat was counted: then the task goes to who
// waits when it comes.
func (q *Queues) Reserve(queue, _ string) slots.Seat {
	secret := newSecret()
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.first(queue)
	q.seats[secret] = p
	if p == nil {
		return slots.Seat{Worker: "temporal", Secret: secret}
	}
	return slots.Seat{Worker: p.identity, Secret: secret}
}

// first takes the poll of a queue that has waited longest; nil: nobody waits.
func (q *Queues) first(queue string) *poll {
	polls := q.polls[queue]
	if len(polls) == 0 {
		return nil
	}
	q.set(queue, polls[1:])
	return polls[0]
}

func (q *Queues) set(queue string, polls []*poll) {
	if len(polls) == 0 {
		delete(q.polls, queue)
		return
	}
	q.polls[queue] = polls
}

// newSecret returns a number that nobody can guess, and never 0.
func newSecret() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // it never fails
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

func (q *Queues) Return(s slots.Seat) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.seats[s.Secret]
	delete(q.seats, s.Secret)
	switch {
	case p == nil:
	case p.leaves:
		p.returned <- struct{}{}
	default:
		q.polls[p.queue] = slices.Insert(q.polls[p.queue], 0, p)
	}
}

func (q *Queues) Has(tok core.Token) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.attempts[tok] != nil
}

func (q *Queues) Keep(t core.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.attempts[t.Token] == nil {
		q.add(&t)
	}
}

func (q *Queues) add(t *core.Task) *attempt {
	a := &attempt{secret: t.Secret}
	a.pulse.Begin(*t, q.clock, q.engine)
	q.attempts[t.Token] = a
	return a
}

func (q *Queues) Dispatch(t core.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.seats[t.Secret]
	delete(q.seats, t.Secret)
	if p == nil {
		p = q.first(t.Queue)
	}
	if p == nil {
		q.notBegun(t.Token)
		return
	}
	q.add(&t)
	if !t.Announce {
		p.task <- t
		return
	}
	beat := core.Beat{Step: t.Token.Step, Attempt: t.Token.Attempt, At: q.clock.Now()}
	q.engine.Deliver(t.Token.Run, beat, func(error) { p.task <- t }) // its worker hears if it has ended meanwhile
}

// notBegun makes the engine give an attempt to another worker. It counts for nothing.
func (q *Queues) notBegun(tok core.Token) {
	q.engine.Report(tok.Run, core.TaskEnded{Step: tok.Step, Attempt: tok.Attempt, Failure: &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the worker that had room for it has gone",
	}})
}

func (q *Queues) Revoke(tok core.Token, _ policy.Kind) {
	q.mu.Lock()
	q.forget(tok)
	q.mu.Unlock()
	q.engine.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt})
}

// forget drops an attempt that has ended. It is called with the lock held.
func (q *Queues) forget(tok core.Token) {
	if a := q.attempts[tok]; a != nil {
		a.pulse.Mute()
		delete(q.attempts, tok)
	}
}

// Poll returns a task once there is one; nil: the wait is over.
func (q *Queues) Poll(
	ctx context.Context, queue, identity string, wait time.Duration,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	p := newPoll(queue, identity)
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil, nil
	}
	q.polls[p.queue] = append(q.polls[p.queue], p)
	q.mu.Unlock()
	q.engine.Offered(p.queue, func(string) bool { return true })
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case t := <-p.task:
		return q.handOut(ctx, &t)
	case <-ctx.Done():
	case <-timer.C:
	case <-q.closing:
	}
	if q.leave(p) {
		return nil, ctx.Err()
	}
	select {
	case t := <-p.task:
		return q.handOut(ctx, &t)
	case <-p.returned:
	case <-q.over:
	}
	return nil, ctx.Err()
}

// leave lets a worker go, and reports whether it can: for one that has a seat, a task may be on its way.
func (q *Queues) leave(p *poll) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	polls := q.polls[p.queue]
	i := slices.Index(polls, p)
	if i < 0 {
		p.leaves = true
		return false
	}
	q.set(p.queue, slices.Delete(polls, i, i+1))
	return true
}

// handOut returns a task as its worker gets it. Where the worker has gone, another one gets it.
func (q *Queues) handOut(
	ctx context.Context, t *core.Task,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	if err := ctx.Err(); err != nil {
		q.mu.Lock()
		q.forget(t.Token)
		q.mu.Unlock()
		q.notBegun(t.Token)
		return nil, err
	}
	out := &workflowservice.PollActivityTaskQueueResponse{}
	if err := proto.Unmarshal(t.Payload, out); err != nil {
		return nil, err
	}
	out.TaskToken = Token{t.Token, t.Secret}.Bytes()
	return out, nil
}

// Close lets all workers go. Their attempts go on.
func (q *Queues) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	close(q.closing)
}

// Forget stops all timers. Call it when the engine is closed.
func (q *Queues) Forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.over)
	for tok, a := range q.attempts {
		q.forget(tok)
		go a.pulse.End() // it waits for its own lock
	}
}
