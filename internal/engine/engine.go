package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Engine runs one partition: a loop that feeds it, a committer that appends its batches, and a reader for runs that come
// due. All methods are safe for concurrent use.
type Engine struct {
	cfg   Config
	defs  *definitions
	inbox *inbox
	gate  chan struct{} // bounds the callers in the partition
	calls sync.Pool     // of *Call
	state atomic.Pointer[status]
	stats struct {
		sync.Mutex
		Stats
	}

	ctx     context.Context // ends when the engine is closed and its goroutines are to stop
	cancel  context.CancelFunc
	stop    chan struct{} // closed by Close
	unsaved error         // why what came last was not saved, where Close found the journal stalled
	once    sync.Once
	done    chan struct{} // closed when all goroutines have ended
}

// status is what keeps the engine from taking requests; nil: nothing does.
type status struct {
	err   error
	final bool
}

func closedStatus() *status {
	return &status{err: &Error{Code: CodeClosed, Op: "engine", Err: errors.New("it was closed")}, final: true}
}

// Open takes the partition over, replays the journal's tail and starts to work. Runs that were active before are
// recovered while the engine already takes requests. Close ends it; the journal and the workers are the caller's.
// Errors: an *Error of CodeHeld, CodeFenced, CodeStalled or CodeStorage.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if cfg.Journal == nil {
		return nil, invalid("open", "", "Config.Journal is not set")
	}
	for name, kind := range cfg.Kinds {
		if kind.Compile == nil && kind.Refuse == nil {
			return nil, invalid("open", "", "Config.Kinds[%q].Compile is not set", name)
		}
	}
	e := &Engine{
		cfg: cfg, defs: newDefinitions(cfg.Journal, cfg.Kinds), inbox: newInbox(),
		gate: make(chan struct{}, cfg.Inflight), stop: make(chan struct{}), done: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l := newLoop(e)
	if cfg.BeforeRecovery != nil {
		if err := cfg.BeforeRecovery(ctx); err != nil {
			e.cancel()
			return nil, &Error{Code: CodeInternal, Op: "open", Err: err, Hint: "what still runs of earlier attempts could not be ended"}
		}
	}
	if err := l.p.Open(e.ctx, l.clock.read()); err != nil {
		e.cancel()
		return nil, err
	}
	go l.run()
	return e, nil
}

// Close stops taking work, waits for what is on its way to the disk, writes the rest of the view and ends. Close the
// workers before: a report that comes later is lost, and its attempt is made again after the next Open. The error is the journal's
// where it took no writes at the end.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.inbox.close()
		e.state.CompareAndSwap(nil, closedStatus())
		close(e.stop)
	})
	<-e.done
	if err := e.Err(); !errors.Is(err, ErrClosed) {
		return err
	}
	return e.unsaved
}

// Done is closed when the engine has ended, by Close or by an error that Err then returns.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Err returns why the engine takes no requests; nil while it does.
func (e *Engine) Err() error {
	if s := e.state.Load(); s != nil {
		return s.err
	}
	return nil
}

// Report implements worker.Reporter: it takes a worker's TaskEnded, TaskStopped or Beat.
func (e *Engine) Report(run core.RunID, in core.Input) {
	if end, ok := in.(core.TaskEnded); ok && len(end.Output) > e.cfg.MaxPayload {
		end.Failure = failed("output_too_large", tooLarge(len(end.Output), e.cfg.MaxPayload))
		end.Output = nil
		in = end
	}
	e.inbox.put(item{rep: report{run, in}})
}

// Confirm implements worker.Confirmer: it reports, and says when that is durable, or that the attempt has ended before.
func (e *Engine) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	e.Do(run, nil, []core.Input{in}, func(err error) {
		var own *Error
		done(errors.As(err, &own) && own.Code != CodeUncertain && own.Code != CodeStalled)
	})
}

// Rematch says that workers, or bodies, take more or other attempts than when they were last asked.
func (e *Engine) Rematch() { e.inbox.put(item{}) }

// Stats counts what the engine holds.
func (e *Engine) Stats() Stats {
	e.stats.Lock()
	defer e.stats.Unlock()
	s := e.stats.Stats
	if st := e.state.Load(); st != nil {
		s.Stalled = st.err.Error()
	}
	return s
}

// call takes a call from the pool. One that its caller gave up is not put back: the loop may answer it yet.
func (e *Engine) call(op CallOp) *Call {
	c, ok := e.calls.Get().(*Call)
	if !ok {
		c = &Call{ch: make(chan struct{}, 1), Done: func(c *Call) { c.ch <- struct{}{} }}
	}
	c.Op = op
	return c
}

func (e *Engine) free(c *Call) {
	*c = Call{ch: c.ch, Done: c.Done}
	e.calls.Put(c)
}

// do passes a call to the loop and waits for its answer. An error leaves the call to the loop.
func (e *Engine) do(ctx context.Context, c *Call) error {
	for {
		if err := e.send(ctx, c); err != nil {
			return err
		}
		select {
		case <-c.ch:
		case <-ctx.Done():
			return e.gaveUp(ctx, c)
		}
		if !c.lost() {
			return nil
		}
		c.forget()
	}
}

// send passes a call to the loop.
func (e *Engine) send(ctx context.Context, c *Call) error {
	if s := e.state.Load(); s != nil && (s.final || c.Op <= CallInput) {
		return s.err
	}
	if err := ctx.Err(); err != nil {
		return failure(c.op(), c.Run.String(), err)
	}
	if !e.inbox.put(item{call: c}) {
		return e.closed()
	}
	return nil
}

// closed returns why the inbox is closed. What closed it may have come after the caller looked at the state; a stall did not.
func (e *Engine) closed() error {
	if s := e.state.Load(); s != nil && s.final {
		return s.err
	}
	return closedStatus().err
}

func (e *Engine) gaveUp(ctx context.Context, c *Call) error {
	err := &Error{Code: CodeCancelled, Op: c.op(), Err: ctx.Err()}
	if c.Op <= CallInput {
		err.Hint = "it may have been saved nevertheless; asking again with the same run id or key is safe"
	}
	return err
}

// pass takes a place among the callers in the partition, so that the inbox stays short.
func (e *Engine) pass(ctx context.Context, op string) error {
	select {
	case e.gate <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return failure(op, "", ctx.Err())
	case <-e.done:
		return e.Err()
	}
}

func (e *Engine) leave() { <-e.gate }

// loop is the goroutine that owns the partition.
type loop struct {
	e     *Engine
	p     *Partition
	clock clock
	timer *time.Timer
	armed core.Time // what the timer is set for; 0: nothing

	items   []item // taken from the inbox, not yet handled
	next    int
	jobs    chan job
	results chan result
	busy    bool // the committer has a job
	retry   core.Time
	backoff time.Duration
	prune   core.Time
	windows chan windowPart
	readers sync.WaitGroup
}

// job is what the committer does: it appends a batch, or it prunes.
type job struct {
	batch *journal.Batch
	prune core.Time
}

type result struct {
	job    job
	pruned int
	err    error
}

// windowPart is what a reader found, or its end.
type windowPart struct {
	window Window
	runs   []Loaded
	end    bool
	far    core.Time
	err    error
}
