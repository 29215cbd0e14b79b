package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// PoolConfig configures a pool. Zero values are useful.
type PoolConfig struct {
	// Executors are the executors by task type. Defaults to Builtin(ExecConfig{}).
	Executors map[string]Executor
	// Slots is how many tasks of a type may run at once; -1 means unbounded. Defaults to unbounded for Instant
	// executors, to 4 for each core and at least 16 for exec, and to 256 for others.
	Slots map[string]int
	// Queues are the task queues that the pool serves. Defaults to the unnamed one, which is the engine's own.
	Queues []string
	// AnyQueue makes the pool serve every task queue; Queues counts for nothing then.
	AnyQueue bool
	// Reporter takes the reports. Required.
	Reporter Reporter
	// Now is the clock of the engine that hands out the tasks. It gives the instants of signs of life, and tells how
	// far away a task's deadline is when the task comes. Elapsed time is measured on the monotonic clock. Now is called
	// concurrently. Defaults to the wall clock at NewPool plus the monotonic time since.
	Now func() core.Time
	// Log receives messages about the worker itself. Defaults to discarding them.
	Log *slog.Logger
}

// Pool executes tasks. It is the engine's Workers.
type Pool struct {
	cfg     PoolConfig
	slots   map[string]int
	instant instants
	turns   turns // for attempts that announce themselves

	drained atomic.Bool // no new attempt starts
	closing atomic.Bool // set under mu
	mu      sync.Mutex
	running map[core.Token]*attempt
	gone    sync.WaitGroup // attempts whose work has not ended
}

// attempt is a task that the pool executes. Pool.mu guards the fields that change.
type attempt struct {
	task    core.Task
	cancel  context.CancelCauseFunc
	revoked bool
	pulse   *pulse
}

// NewPool returns a pool that is ready for tasks.
func NewPool(cfg PoolConfig) *Pool {
	if cfg.Executors == nil {
		cfg.Executors = Builtin(ExecConfig{Log: cfg.Log})
	}
	if cfg.Queues == nil {
		cfg.Queues = []string{""}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		start := time.Now()
		cfg.Now = func() core.Time { return policy.At(start).Add(time.Since(start)) }
	}
	p := &Pool{cfg: cfg, slots: map[string]int{}, running: map[core.Token]*attempt{}}
	p.instant.pool = p
	for name, executor := range cfg.Executors {
		p.slots[name] = defaultSlots(name, executor)
		if n, given := cfg.Slots[name]; given {
			p.slots[name] = n
		}
	}
	return p
}

// Builtin returns the executors of the built-in task types exec, noop and fail. Package web has that of http.
func Builtin(exec ExecConfig) map[string]Executor {
	return map[string]Executor{"exec": NewExec(exec), "noop": Noop{}, "fail": Fail{}}
}

func defaultSlots(name string, executor Executor) int {
	if _, ok := executor.(Instant); ok {
		return -1
	}
	if name == "exec" {
		return max(16, 4*runtime.GOMAXPROCS(0))
	}
	return 256
}

// Slots returns how many tasks of the type may run at once; -1 means unbounded. It returns 0 if the pool does not serve
// the queue or the type, or was drained or closed. It takes no lock, because an engine's loop calls it for each
// attempt.
func (p *Pool) Slots(queue, taskType string) int {
	n, known := p.slots[taskType]
	served := p.cfg.AnyQueue || slices.Contains(p.cfg.Queues, queue)
	if !known || !served || p.drained.Load() || p.closing.Load() {
		return 0
	}
	return n
}

// Dispatch executes a task. It does not block, and reports nothing before it returns. A closed pool drops the task. If
// it reported the attempt as lost, an engine that is stopping too would only hand out the next attempt.
func (p *Pool) Dispatch(t core.Task) {
	executor, known := p.cfg.Executors[t.Type]
	if !known {
		executor = unknownType(t.Type)
	}
	expired := t.Deadline != 0 && t.Deadline <= p.cfg.Now()
	if quick, ok := executor.(Instant); ok && !expired {
		p.instant.push(quick, t)
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing.Load() {
		p.cfg.Log.Info("a task came after the worker was closed", "run", t.Token.Run, "step", t.StepName)
		return
	}
	if p.running[t.Token] != nil {
		p.cfg.Log.Warn("a task came twice", "run", t.Token.Run, "step", t.StepName, "attempt", t.Token.Attempt)
		return
	}
	if expired {
		// The limit has fired or is about to. But an operator may have extended it, so the engine has to know in any
		// case that the work has not started.
		p.gone.Go(func() { p.ended(t.Token, Result{Failure: notBegun()}, nil) })
		return
	}
	a := &attempt{task: t}
	p.running[t.Token] = a
	ctx, cancel := context.WithCancelCause(context.Background())
	a.cancel, a.pulse = cancel, newPulse(p, t)
	if t.Deadline != 0 {
		ctx = WithEnd(ctx, time.Now().Add(t.Deadline.Sub(p.cfg.Now())))
	}
	p.gone.Add(1)
	go p.execute(ctx, executor, a)
}

// execute executes one task and reports how it ended.
func (p *Pool) execute(ctx context.Context, executor Executor, a *attempt) {
	defer p.gone.Done()
	res := Result{Failure: unfinished()}
	defer func() { // deferred, because an executor may end its goroutine without returning
		p.mu.Lock()
		delete(p.running, a.task.Token)
		revoked, closing := a.revoked, p.closing.Load()
		p.mu.Unlock()
		a.cancel(nil)
		details := a.pulse.end()
		if res.Abandoned {
			p.cfg.Log.Warn("work was abandoned: it did not stop when it was killed", "run", a.task.Token.Run,
				"step", a.task.StepName, "attempt", a.task.Token.Attempt)
		}

		switch {
		case revoked:
			p.stopped(a.task.Token, res.Abandoned)
		case closing && res.Failure != nil && ctx.Err() != nil:
			p.ended(a.task.Token, Result{Failure: lostByClosing(res.Failure)}, details)
		default:
			p.ended(a.task.Token, res, details)
		}
	}()
	if a.task.Announce {
		ctx = context.WithValue(ctx, announceKey{}, func() bool { return p.announce(ctx, a.task) })
		if _, itself := executor.(Announcer); !itself && !Announce(ctx) {
			return
		}
	}
	guard(&res, func() Result { return executor.Execute(ctx, a.task, a.pulse) })
}

func (p *Pool) ended(tok core.Token, res Result, details []byte) {
	p.cfg.Reporter.Report(tok.Run, core.TaskEnded{
		Step: tok.Step, Attempt: tok.Attempt, Output: res.Output, Failure: res.Failure, Details: details,
	})
}

func notBegun() *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun,
		Message: "the attempt came to its worker after its deadline",
	}
}

func (p *Pool) stopped(tok core.Token, abandoned bool) {
	p.cfg.Reporter.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt, Abandoned: abandoned})
}

// Revoke stops the work of an attempt that has ended for the engine. The pool reports TaskStopped when the work is gone
// or abandoned. For an attempt that the pool does not know, it does so at once: the attempt has just ended by itself,
// or its task never came.
func (p *Pool) Revoke(tok core.Token, why policy.Kind) {
	p.mu.Lock()
	a := p.running[tok]
	if a != nil {
		a.revoked = true
	}
	p.mu.Unlock()
	if a == nil {
		p.stopped(tok, false)
		return
	}
	a.pulse.mute()
	a.cancel(&RevokedError{Kind: why})
}

// Drain makes the pool offer no slots any more. Attempts that have one run to their end.
func (p *Pool) Drain() { p.drained.Store(true) }

// Close stops all work as each executor does it, and waits until the work is gone or ctx is done. Attempts that it
// interrupts are reported as lost. The pool takes no tasks afterwards.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closing.Store(true)
	for _, a := range p.running {
		a.cancel(ErrClosing)
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		p.gone.Wait()
		p.instant.wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Errorf("worker: %d attempts have not stopped yet: %w", len(p.running), context.Cause(ctx))
	}
	var errs []error
	for _, executor := range p.cfg.Executors {
		if c, ok := executor.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
