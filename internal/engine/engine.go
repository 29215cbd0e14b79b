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

// Engine runs all partitions of a journal. For each there is a loop that feeds it, a committer that appends its batches, and
// a reader for runs that come due. It is made by New and works from Open on. All methods are safe for concurrent use.
type Engine struct {
	parts *parts // one engine for each partition, where there are several; nil: this one runs the only one
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

	opening sync.Mutex
	opened  bool // the loop runs; under opening

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

// New returns an engine that does nothing yet: it has no goroutine and touches no storage. Workers, bodies and reporters can
// be given it. What is asked of it and reported to it waits until Open. Close it in any case.
// Errors: CodeInvalid, where the configuration cannot be used.
func New(cfg Config) (*Engine, error) {
	if cfg.Journal == nil {
		return nil, invalid("open", "", "Config.Journal is not set")
	}
	for name, kind := range cfg.Kinds {
		if kind.Compile == nil && kind.Refuse == nil {
			return nil, invalid("open", "", "Config.Kinds[%q].Compile is not set", name)
		}
	}
	cfg = cfg.withDefaults()
	defs := newDefinitions(cfg.Journal, cfg.Kinds)
	if n := cfg.Journal.PartitionCount(); n > 1 {
		return newParts(cfg, defs, n), nil
	}
	return newEngine(cfg, defs), nil
}

// newEngine returns an engine of one partition.
func newEngine(cfg Config, defs *definitions) *Engine {
	e := &Engine{cfg: cfg, defs: defs, inbox: newInbox(), stop: make(chan struct{}), done: make(chan struct{})}
	e.cfg.Wake = e.wake
	e.gate = make(chan struct{}, e.cfg.Inflight)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Open takes the partition over, replays the journal's tail and starts to work. Runs that were active before are recovered
// while the engine already takes requests. ctx bounds the opening; the engine works until Close, which leaves the journal
// and the workers to the caller. After an error Open may be called again.
// Errors: an *Error of CodeHeld (somebody else owns the partition: try again later), CodeStalled, CodeStorage, CodeInternal.
func (e *Engine) Open(ctx context.Context) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.parts != nil {
		return e.parts.open(ctx, e)
	}
	if e.opened || e.Err() != nil {
		return &Error{Code: CodeClosed, Op: "open", Err: errors.New("the engine was opened or closed before")}
	}
	l := newLoop(e)
	if err := l.open(ctx); err != nil {
		return err
	}
	e.opened = true
	go l.run()
	return nil
}

// Serve adds workers, whose name is recorded with the attempts that they execute; empty: the owner of the partition is.
func (e *Engine) Serve(name string, w Workers) {
	e.cfg.Matcher.Add(name, w)
	e.Rematch()
}

// Expect says that messages from other partitions may have come; see Config.Sent.
func (e *Engine) Expect() { e.inbox.put(item{expect: true}) }

// wake has the loop look whether a slot is free for an attempt that waits.
func (e *Engine) wake(queue, taskType string) { e.inbox.put(item{match: &queueKey{queue, taskType, false}}) }

// Close stops taking work, waits for what is on its way to the disk, writes the rest of the view and ends. Close the
// workers before: a report that comes later is lost, and its attempt is made again after the next Open. The error is the journal's
// where it took no writes at the end.
func (e *Engine) Close() error {
	if e.parts != nil {
		return e.parts.close(e)
	}
	e.once.Do(func() {
		e.inbox.close()
		e.state.CompareAndSwap(nil, closedStatus())
		close(e.stop)
		e.opening.Lock()
		defer e.opening.Unlock()
		if !e.opened {
			e.cancel()
			newLoop(e).drain()
			close(e.done)
		}
	})
	<-e.done
	if err := e.Err(); !errors.Is(err, ErrClosed) {
		return err
	}
	return e.unsaved
}

// Done is closed when the engine has ended, by Close or by an error that Err then returns: of CodeFenced, where another engine
// owns the partition and others of this process go on, or of CodeStorage, where the journal cannot be used any more.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Err returns why the engine takes no requests; nil while it does.
func (e *Engine) Err() error {
	if e.parts != nil {
		return e.parts.err()
	}
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
	e.of(run).inbox.put(item{rep: report{run, in}})
}

// Confirm implements worker.Confirmer: it reports, and says when that is durable, or that the attempt has ended before.
func (e *Engine) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	e.Do(run, nil, []core.Input{in}, func(err error) {
		var own *Error
		done(errors.As(err, &own) && own.Code != CodeUncertain && own.Code != CodeStalled)
	})
}

// Rematch says that workers, or bodies, take more or other attempts than when they were last asked.
func (e *Engine) Rematch() {
	for _, part := range e.all() {
		part.inbox.put(item{})
	}
}

// Stats counts what the engine holds.
func (e *Engine) Stats() Stats {
	if e.parts != nil {
		return e.parts.stats()
	}
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
	renew   core.Time // when the ownership is to be renewed; 0: never
	windows chan windowPart
	fetches chan fetched
	readers sync.WaitGroup
}

// job is what the committer does: it appends a batch, renews the ownership of the partition, or prunes.
type job struct {
	batch *journal.Batch
	renew uint64 // the owner's epoch
	prune core.Time
}

type result struct {
	job    job
	pruned int
	err    error
}

// fetched is what a reader found in the inbox.
type fetched struct {
	fetch    Fetch
	messages []journal.Message
	err      error
}

// windowPart is what a reader found, or its end.
type windowPart struct {
	window Window
	runs   []Loaded
	end    bool
	far    core.Time
	err    error
}
