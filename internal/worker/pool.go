package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
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
	// Other executes the types that Executors does not name. nil: nothing does. Slots does not count these types.
	Other Executor
	// Slots is how many tasks of a type may run at once; -1 means unbounded. Defaults to unbounded for Instant
	// executors, to 4 for each core and at least 16 for exec, and to 256 for others.
	Slots map[string]int
	// Queues are the task queues that the pool serves. Defaults to the unnamed one, which is the engine's own.
	Queues []string
	// AnyQueue makes the pool serve every task queue; Queues is ignored then.
	AnyQueue bool
	// Reporter takes the reports. Required.
	Reporter Reporter
	// Now is the clock of the engine that hands out the tasks. It gives the instants of signs of life, and how far away
	// a task's deadline is when the task arrives. Elapsed time is measured on the monotonic clock. Now is called
	// concurrently. Defaults to the wall clock at NewPool plus the monotonic time since.
	Now func() core.Time
	// Stands means that Now shows the same instant until somebody moves it.
	Stands bool
	// Log receives messages about the worker itself. Defaults to discarding them.
	Log *slog.Logger
}

// Pool executes tasks. It is the engine's Workers.
type Pool struct {
	cfg     PoolConfig
	slots   map[string]int
	instant instants
	turns   turns // the turns of attempts that announce themselves

	drained    atomic.Bool // no new attempt starts
	closing    atomic.Bool
	running    [16]running
	gone       sync.WaitGroup // attempts whose work has not ended
	goroutines goroutines
}

// running is a part of the attempts that a pool executes. There are several, so that the engine's loop, which hands out
// tasks, seldom waits for attempts that end.
type running struct {
	mu      sync.Mutex
	running map[core.Token]*attempt
}

// part returns the part of an attempt.
func (p *Pool) part(tok core.Token) *running { return &p.running[int(tok.Run[15])%len(p.running)] }

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
	p := &Pool{cfg: cfg, slots: map[string]int{}}
	for i := range p.running {
		p.running[i].running = map[core.Token]*attempt{}
	}
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
		return DefaultProcesses()
	}
	return 256
}

// DefaultProcesses returns how many exec tasks run at once by default.
func DefaultProcesses() int { return max(16, 4*runtime.GOMAXPROCS(0)) }

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

// Do does a task that takes no time and has no effects outside, and returns its result. It returns false for all other
// tasks, and for those whose payload takes time to read.
func (p *Pool) Do(t core.Task) (core.TaskEnded, bool) {
	quick, ok := p.cfg.Executors[t.Type].(Instant)
	if !ok || len(t.Payload) > instantPayload || p.closing.Load() || t.Deadline != 0 && t.Deadline <= p.cfg.Now() {
		return core.TaskEnded{}, false
	}
	return endOf(t.Token, do(quick, t), nil), true
}

// Dispatch executes a task. It does not block, and reports nothing before it returns. A closed pool drops the task. If
// it reported the attempt as lost, an engine that is stopping too would only hand out the next attempt.
func (p *Pool) Dispatch(t core.Task) {
	executor, known := p.cfg.Executors[t.Type]
	switch {
	case !known && p.cfg.Other != nil:
		executor = p.cfg.Other
	case !known:
		executor = unknownType(t.Type)
	}
	expired := t.Deadline != 0 && t.Deadline <= p.cfg.Now()
	if quick, ok := executor.(Instant); ok && !expired {
		p.instant.push(quick, t)
		return
	}

	part := p.part(t.Token)
	part.mu.Lock()
	defer part.mu.Unlock()
	if p.closing.Load() {
		p.cfg.Log.Info("a task came after the worker was closed", "run", t.Token.Run, "step", t.StepName)
		return
	}
	if part.running[t.Token] != nil {
		p.cfg.Log.Warn("a task came twice", "run", t.Token.Run, "step", t.StepName, "attempt", t.Token.Attempt)
		return
	}
	if expired {
		// The limit has fired or is about to. But an operator may have extended it, so the engine has to know in any
		// case that the work has not started.
		tok := t.Token // a closure over t would put each task on the heap
		p.gone.Go(func() { p.ended(tok, Result{Failure: notBegun()}, nil) })
		return
	}
	a := &attempt{pool: p, executor: executor, task: t}
	a.Context, a.cancel = context.WithCancelCause(context.Background())
	a.pulse.Begin(t, Clock{p.cfg.Now, p.cfg.Stands}, p.cfg.Reporter)
	if t.Deadline != 0 {
		a.Context = WithEnd(a.Context, time.Now().Add(t.Deadline.Sub(p.cfg.Now())))
	}
	part.running[t.Token] = a
	p.gone.Add(1)
	p.goroutines.execute(a)
}

// DispatchFor executes a task whose deadline is a length of time away; 0 if it has none.
func (p *Pool) DispatchFor(t core.Task, left time.Duration) {
	if left > 0 {
		t.Deadline = p.cfg.Now().Add(left)
	}
	p.Dispatch(t)
}

// Revoke stops the work of an attempt that has ended for the engine. The pool reports TaskStopped when the work is gone
// or abandoned. For an attempt that the pool does not know, it does so at once: the attempt has just ended, or its task
// never came.
func (p *Pool) Revoke(tok core.Token, why policy.Kind) {
	part := p.part(tok)
	part.mu.Lock()
	a := part.running[tok]
	if a != nil {
		a.revoked = true
	}
	part.mu.Unlock()
	if a == nil {
		p.stopped(tok, Result{})
		return
	}
	a.pulse.Mute()
	a.stop(&RevokedError{Kind: why})
}

// Drain makes the pool offer no more slots. Attempts that have one run to their end.
func (p *Pool) Drain() { p.drained.Store(true) }

// Close stops all work in the way of each executor, and waits until the work is gone or ctx is done. Attempts that it
// interrupts are reported as lost. The pool takes no tasks afterwards.
func (p *Pool) Close(ctx context.Context) error {
	p.closing.Store(true)
	for _, a := range p.attempts() {
		a.stop(ErrClosing)
	}
	p.goroutines.close()
	done := make(chan struct{})
	go func() {
		p.gone.Wait()
		p.instant.wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("worker: %d attempts have not stopped yet: %w", len(p.attempts()), context.Cause(ctx))
	}
	var errs []error
	for _, executor := range slices.AppendSeq([]Executor{p.cfg.Other}, maps.Values(p.cfg.Executors)) {
		if c, ok := executor.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// attempts returns the running ones.
func (p *Pool) attempts() []*attempt {
	var all []*attempt
	for i := range p.running {
		part := &p.running[i]
		part.mu.Lock()
		all = slices.AppendSeq(all, maps.Values(part.running))
		part.mu.Unlock()
	}
	return all
}
