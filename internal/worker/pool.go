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
	// Executors by task type; default Builtin(ExecConfig{}).
	Executors map[string]Executor
	// Slots is how many tasks of a type may run at once, -1: unbounded. Defaults to 4 for each core and at least 16 for
	// exec, 256 for others, unbounded for Instant executors.
	Slots map[string]int
	// Queues are the task queues the pool serves; defaults to the unnamed one, which is the engine's own.
	Queues []string
	// Reporter takes the reports. Required.
	Reporter Reporter
	// Now is the clock of the engine that hands out the tasks, for the instants of signs of life and for deadlines at
	// the start; elapsed time is measured on the monotonic clock. It is called concurrently. Defaults to the wall clock at NewPool and the
	// monotonic time since.
	Now func() core.Time
	// Log takes what people should know about the worker itself; defaults to discarding.
	Log *slog.Logger
}

// Pool executes tasks. It is the engine's Workers.
type Pool struct {
	cfg     PoolConfig
	slots   map[string]int
	instant instants
	turns   turns // of attempts that announce themselves

	closing atomic.Bool // set under mu
	mu      sync.Mutex
	running map[core.Token]*attempt
	gone    sync.WaitGroup // attempts that execute
}

// attempt is a task in the pool's hands. Its mutable fields are guarded by Pool.mu.
type attempt struct {
	task    core.Task
	cancel  context.CancelCauseFunc
	revoked bool
	pulse   *pulse
}

// NewPool returns a pool that takes tasks at once.
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

// Slots returns how many tasks of the type may run at once: 0 where the pool does not serve the queue or the type, or
// closes; -1 for no bound. It takes no lock: an engine's loop asks for each attempt.
func (p *Pool) Slots(queue, taskType string) int {
	n, known := p.slots[taskType]
	if !known || !slices.Contains(p.cfg.Queues, queue) || p.closing.Load() {
		return 0
	}
	return n
}

// Dispatch executes a task. It does not block, and reports nothing before it returns. A closed pool drops the task: to
// call it lost would only make an engine that stops as well hand out the next attempt.
func (p *Pool) Dispatch(t core.Task) {
	executor, known := p.cfg.Executors[t.Type]
	if !known {
		executor = missing(t.Type)
	}
	late := t.Deadline != 0 && t.Deadline <= p.cfg.Now()
	if quick, ok := executor.(Instant); ok && !late {
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
	if late {
		// Its limit has fired or is about to, unless somebody has moved it meanwhile: the engine is to know either way.
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
	defer func() { // also where the executor ends its goroutine
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
			p.ended(a.task.Token, Result{Failure: lostToClosing(res.Failure)}, details)
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
	return &policy.Failure{Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the attempt came to its worker after its deadline"}
}

func (p *Pool) stopped(tok core.Token, abandoned bool) {
	p.cfg.Reporter.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt, Abandoned: abandoned})
}

// Revoke stops an attempt that has ended. TaskStopped is reported when its work is gone or abandoned, at once for an
// attempt that the pool does not know (its own report was under way, or it never came).
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

// Close stops everything by the executors' ladders and waits until it is gone, or until ctx is done. An attempt that it
// interrupts is reported lost. Afterwards the pool takes no tasks.
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
		return fmt.Errorf("worker: %d attempts still stop: %w", len(p.running), context.Cause(ctx))
	}
	var errs []error
	for _, executor := range p.cfg.Executors {
		if c, ok := executor.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
