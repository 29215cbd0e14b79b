package remote

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// EngineCalls is the part of an engine that the queues need.
type EngineCalls interface {
	worker.Reporter
	// Deliver reports, and calls done when the report is durable or was refused.
	Deliver(run core.RunID, in core.Input, done func(error))
	// Attempt returns how an attempt is doing.
	Attempt(ctx context.Context, tok core.Token) (engine.AttemptState, error)
	// Offered reports that a worker has room for tasks.
	Offered(queue string, takes func(taskType string) bool)
}

// Config configures queues.
type Config struct {
	Engine EngineCalls // required
	// Run explains a run; the answer to a report that comes too late contains what has happened instead. Required.
	Run func(ctx context.Context, name string) (*api.Run, error)
	// Now is the engine's clock. Required.
	Now func() core.Time
	// Stands means that Now shows the same instant until somebody moves it.
	Stands bool
	// Grace is how long an attempt that has ended waits for its worker to learn of that. After it has learned of it, it
	// has twice as long to stop the work. Then the work is abandoned, and the next attempt may begin. Default 5s.
	Grace time.Duration
	// Own are the task types that the process with the engine executes itself. No other worker gets them.
	Own []string
	// StartWithin is how long a task waits for its worker's report that it starts, if the worker said that it would
	// report that. Default 10s.
	StartWithin time.Duration
	// Trace returns the W3C traceparent of an attempt, for its calls and starts. nil: there is only that of the run's
	// headers.
	Trace func(core.Task) string
}

// Queues are task queues whose tasks go to workers in other processes. For an engine they are workers.
type Queues struct {
	cfg     Config
	closing chan struct{}

	mu       sync.Mutex
	closed   bool
	polls    map[string][]*poll // the polls by queue, in the order in which they came
	seats    map[uint64]*poll   // reserved seats, by the secrets of their attempts; nil: no poll had room
	attempts map[core.Token]*attempt
	drained  func() // looks whether all seats are free; nil: it is not needed
	opened   core.Time
	came     map[string][]visit // the workers that came last, by queue
	seen     map[workerOf]*seen // the workers that came last, by name
}

var (
	_ slots.RemoteWorkers = (*Queues)(nil)
	_ api.Tasks           = (*Queues)(nil)
)

// attempt is an attempt that a worker has. The lock of Queues guards its fields, but not the pulse, which has its own.
type attempt struct {
	task        core.Task
	worker      string // the name of the worker that has it; empty: it has given none
	pulse       worker.Pulse
	unconfirmed *time.Timer // gives the task to another worker; nil: its worker need not report that it has it
	confirmed   bool        // its worker has reported something, so it has the task
	over        bool        // it was forgotten: it is no longer among the attempts
	details     []byte      // its last heartbeat's, where they had yet to be reported when it ended
	ending      bool        // its worker has reported its end, which is not durable yet
	revoked     bool        // it has ended, and its worker should stop the work
	why         policy.Kind
	told        bool        // the worker knows that
	abandon     *time.Timer // the timer that abandons a revoked one
}

// New returns queues. Give them to the engine before it is opened: attempts that workers execute since an earlier
// process had the engine are lost otherwise.
func New(cfg Config) *Queues {
	if cfg.Grace <= 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.StartWithin <= 0 {
		cfg.StartWithin = 10 * time.Second
	}
	return &Queues{
		cfg: cfg, closing: make(chan struct{}), polls: map[string][]*poll{}, seats: map[uint64]*poll{},
		attempts: map[core.Token]*attempt{}, opened: cfg.Now(), came: map[string][]visit{}, seen: map[workerOf]*seen{},
	}
}

// secret returns a number that nobody can guess, and never 0.
func (q *Queues) secret() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // it never fails
		if n := binary.LittleEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// hearWithin is how long an attempt that was kept waits for a report of a worker that promised one every minute.
// Perhaps the task was lost on its way to that worker when the engine died, and perhaps the worker has died with it.
const hearWithin = time.Minute + 30*time.Second

// Serves implements slots.RemoteWorkers. A worker may ask for tasks of any queue.
func (q *Queues) Serves(string) bool { return true }

func (q *Queues) Has(tok core.Token) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.attempts[tok] != nil
}

func (q *Queues) Keep(t core.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.attempts[t.Token] != nil || q.closed {
		return
	}
	a := &attempt{task: t}
	a.pulse.Begin(t, worker.Clock{Now: q.cfg.Now, Stands: q.cfg.Stands}, q.cfg.Engine)
	q.attempts[t.Token] = a
	if t.Confirms {
		a.unconfirmed = time.AfterFunc(hearWithin, func() {
			q.giveBack(t.Token, &policy.Failure{
				Kind: policy.KindLost, Type: "worker_silent",
				Message: "its worker has reported nothing since the engine was started again",
			})
		})
	}
}

// Revoke implements slots.Workers. The worker learns of it with its next report.
func (q *Queues) Revoke(tok core.Token, why policy.Kind) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.attempts[tok]
	switch {
	case a == nil || a.ending:
		q.stopped(tok, false, false)
	case !a.revoked:
		a.revoked, a.why = true, why
		a.pulse.Mute()
		a.abandon = time.AfterFunc(q.cfg.Grace, func() { q.giveUp(a) })
	}
}

// giveUp stops waiting for work that was told to stop.
func (q *Queues) giveUp(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.attempts[a.task.Token] == a && !q.closed {
		q.end(a)
		q.stopped(a.task.Token, true, false)
	}
}

// stopped reports that the work of an attempt that has ended is gone. It is called with the lock held: Report of an
// engine does not block, and calls nothing.
func (q *Queues) stopped(tok core.Token, abandoned, killed bool) {
	q.cfg.Engine.Report(tok.Run, core.TaskStopped{
		Step: tok.Step, Attempt: tok.Attempt, Abandoned: abandoned, Killed: killed,
	})
}

// end forgets an attempt.
func (q *Queues) end(a *attempt) {
	a.over = true
	a.pulse.Mute()
	for _, t := range []*time.Timer{a.unconfirmed, a.abandon} {
		if t != nil {
			t.Stop()
		}
	}
	if q.attempts[a.task.Token] == a {
		delete(q.attempts, a.task.Token)
	}
}

// Drain releases all workers that wait for tasks, and takes no more of them. It waits until the tasks that are on their
// way to them have arrived, or ctx is done. Reports are still taken.
func (q *Queues) Drain(ctx context.Context) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
	empty := make(chan struct{})
	q.drained = func() {
		if len(q.seats) == 0 {
			q.drained = nil
			close(empty)
		}
	}
	q.drained()
	q.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// Close stops all timers. Call it when the engine is closed. Attempts go on: their workers report to the next process
// that has the engine.
func (q *Queues) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
	for _, a := range q.attempts {
		q.end(a)
		go a.pulse.End() // it waits for its own lock
	}
}

// Waiting returns how many workers wait for tasks.
func (q *Queues) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, polls := range q.polls {
		n += len(polls)
	}
	return n
}
