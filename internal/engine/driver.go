package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/clock"
	"github.com/pawl-dev/pawl/internal/engine/slots"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/naming"
	"github.com/pawl-dev/pawl/policy"
)

// driver runs one partition. The partition has a loop that gives it inputs, a committer that appends its batches, and
// readers for runs that are due soon and for messages. All methods are safe for concurrent use.
type driver struct {
	cfg      Config
	defs     *definitions
	requests *requestQueue
	gate     chan struct{} // bounds how many callers wait for the loop at once
	spare    struct {
		starts  spares[StartCall, *StartCall]
		inputs  spares[InputCall, *InputCall]
		results spares[ResultCall, *ResultCall]
	}
	state  atomic.Pointer[status]
	waits  atomic.Pointer[commitWait] // nil: no commit takes too long
	counts struct {
		sync.Mutex
		Stats
	}

	opening sync.Mutex
	opened  bool        // the loop runs; protected by opening
	given   atomic.Bool // Close gives the partition to another engine, while this process goes on

	ctx     context.Context // ends when the loop has ended, which stops the other goroutines
	cancel  context.CancelFunc
	stop    chan struct{} // closed by close
	unsaved error         // why the last inputs were not saved, if the journal took no writes when close came
	once    sync.Once
	done    chan struct{} // closed when all goroutines have ended
}

// status is the reason why the engine takes no requests. A nil status means that it takes them.
type status struct {
	err   error
	final bool // it does not go on by itself
}

func closedStatus() *status {
	return &status{err: &Error{Code: CodeClosed, Op: "engine", Err: errors.New("it was closed")}, final: true}
}

// newDriver returns a driver that does nothing yet.
func newDriver(cfg Config, defs *definitions) *driver {
	e := &driver{
		cfg: cfg, defs: defs, requests: newRequestQueue(), stop: make(chan struct{}), done: make(chan struct{}),
	}
	e.cfg.Wake = e.wake
	e.cfg.Matcher.StartLoad()
	e.gate = make(chan struct{}, e.cfg.Inflight)
	e.ctx, e.cancel = context.WithCancel(journal.Urgent(context.Background()))
	return e
}

// open takes the partition over, replays the journal's tail and starts the loop.
func (e *driver) open(ctx context.Context) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.opened || e.err() != nil {
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

// expect reports that messages of other partitions may have come; see Config.Sent. It returns false if the driver takes
// no requests.
func (e *driver) expect() bool { return e.requests.put(request{expect: true}) }

// wake tells the loop that a slot may be free for an attempt that waits.
func (e *driver) wake(queue, taskType string) {
	e.requests.put(request{match: &slots.Key{Queue: queue, Type: taskType}})
}

// close takes no more requests, saves everything that has happened, completes the view, and ends. If the journal took
// no writes at the end, it returns its error.
func (e *driver) close() error {
	e.once.Do(func() {
		e.requests.close()
		e.state.CompareAndSwap(nil, closedStatus())
		close(e.stop)
		e.opening.Lock()
		defer e.opening.Unlock()
		if !e.opened {
			e.cancel()
			l := newLoop(e)
			l.drain()
			if e.cfg.Shared {
				l.p.admissions.leaveLoad()
			}
			close(e.done)
		}
	})
	<-e.done
	if err := e.err(); !errors.Is(err, ErrClosed) && !errors.Is(err, errHeld) {
		return err
	}
	return e.unsaved
}

// err returns why the driver takes no requests. It returns nil while it takes them.
func (e *driver) err() error {
	if s := e.state.Load(); s != nil {
		return s.err
	}
	return nil
}

// bounded bounds what callers, workers and bodies report: an attempt fails whose output is too large, and a failure
// loses its data if that is too large. To the judge it stays what it is.
func (c *Config) bounded(in core.Input) core.Input {
	switch in := in.(type) {
	case core.TaskEnded:
		if n := len(in.Output); n > c.MaxPayload {
			in.Failure, in.Output = permanentFailure("output_too_large", tooLarge(n, c.MaxPayload)), nil
			return in
		}
		if c.boundFailure(&in.Failure) {
			return in
		}
	case core.Operation:
		if c.boundFailure(&in.Failure) {
			return in
		}
	case core.Commands:
		if c.boundCommands(&in) {
			return in
		}
	default:
	}
	return in
}

// boundCommands bounds the failures in a body's decisions, and reports whether one was too large.
func (c *Config) boundCommands(in *core.Commands) (changed bool) {
	all := in.Commands
	for i, cmd := range all {
		large := false
		switch own := cmd.(type) {
		case core.Close:
			if large = c.boundFailure(&own.Failure); large {
				cmd = own
			}
		case core.AnswerUpdate:
			if large = c.boundFailure(&own.Failure); large {
				cmd = own
			}
		default:
		}
		if large && !changed {
			in.Commands, changed = slices.Clone(all), true // the caller keeps its own
		}
		if large {
			in.Commands[i] = cmd
		}
	}
	return changed
}

// leastFailure is how many bytes a failure may always have: texts and stacks are no payload.
const leastFailure = 64 << 10

// boundFailure takes its data from a failure that is too large, and reports whether it was.
func (c *Config) boundFailure(f **policy.Failure) bool {
	n, limit := sizeOf(*f), max(c.MaxPayload, leastFailure)
	if n <= limit {
		return false
	}
	short := **f
	short.Details, short.Encoded, short.Also, short.Cause = nil, nil, nil, nil
	left := "the data of this failure is left out: " + tooLarge(n, limit)
	if short.Message != "" {
		left = naming.Shorten(short.Message) + "; " + left
	}
	short.Message = left
	*f = &short
	return true
}

// sizeOf returns how many bytes of text and data a failure carries.
func sizeOf(f *policy.Failure) (n int) {
	for ; f != nil; f = f.Cause {
		n += len(f.Message) + len(f.Details) + len(f.Encoded)
		for i := range f.Also {
			n += len(f.Also[i].Details)
		}
	}
	return n
}

// stats counts what the partition holds.
func (e *driver) stats() Stats {
	e.counts.Lock()
	defer e.counts.Unlock()
	s := e.counts.Stats
	if st := e.state.Load(); st != nil {
		s.Stalled = st.err.Error()
	} else if w := e.waits.Load(); w != nil {
		s.Stalled = w.String()
	}
	return s
}

// ask gives a call to the loop and waits for its answer, whose error it returns. After an error the caller must no
// longer use the call, because the loop may still use it.
func (e *driver) ask(ctx context.Context, c Call) error {
	for {
		if err := e.send(ctx, c); err != nil {
			return answerTo(c, err)
		}
		reply := c.Answered()
		select {
		case <-reply.ch:
		case <-ctx.Done():
			return e.gaveUp(ctx, c)
		}
		if !mustRepeat(c) {
			return answerTo(c, reply.Err)
		}
		c.clear()
	}
}

// answerTo returns the error of a call as its caller gets it.
func answerTo(c Call, err error) error {
	if c.nature() == saves {
		return err
	}
	return ofRead(err)
}

// send gives a call to the loop. The answer comes through the channel of its reply.
func (e *driver) send(ctx context.Context, c Call) error {
	if s := e.state.Load(); s != nil && (s.final || c.nature() == saves) {
		return s.err
	}
	if err := ctx.Err(); err != nil {
		return failure(c.op(), "", err)
	}
	if reply := c.Answered(); reply.ch == nil {
		reply.ch = make(chan struct{}, 1)
	}
	if !e.requests.put(request{call: c}) {
		return e.refusal()
	}
	return nil
}

// tell gives the loop a call whose answer nobody needs.
func (e *driver) tell(c Call) { e.requests.put(request{call: c}) }

// refusal returns why the queue of requests is closed. The reason is always final: while the journal only takes no
// writes for a time, it stays open.
func (e *driver) refusal() error {
	if s := e.state.Load(); s != nil && s.final {
		return s.err
	}
	return closedStatus().err
}

// gaveUp returns the error of a call whose caller stopped waiting.
func (e *driver) gaveUp(ctx context.Context, c Call) error {
	err := &Error{Code: CodeCancelled, Op: c.op(), Err: ctx.Err()}
	if c.nature() == saves {
		err.Hint = "the request may still be saved; it is safe to repeat it with the same run id or key"
	}
	return err
}

// enter waits until fewer than Config.Inflight callers wait for the loop, so that the queue of requests stays short.
// The caller calls leave when it has its answer.
func (e *driver) enter(ctx context.Context, op string) error {
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
		return e.err()
	}
}

func (e *driver) leave() { <-e.gate }

// loop is the goroutine that owns the partition.
type loop struct {
	e       *driver
	p       *Partition
	clock   clock.Clock
	timer   *time.Timer
	alarm   *clock.Alarm    // rings before the timer, where the system has alarms; nil if there is none
	rings   <-chan struct{} // the alarm's rings
	timerAt core.Time       // the instant that timer and alarm are set to; 0 if they are not set
	stall   clock.Stall

	taken     []request // requests from the queue; those from next on are not handled yet
	next      int
	jobs      chan job
	results   chan result
	busy      bool // the committer has a job
	tenure    clock.Tenure
	retry     core.Time     // when to open the partition again, while the journal takes no writes
	backoff   time.Duration // the delay before retry
	stalledAt time.Time     // when the journal began to take no writes
	patience  time.Duration // how long a batch may wait for a decision
	hasty     int           // how many batches more do not wait for one
	prune     core.Time     // when to remove old runs; 0: never
	nextClaim string        // the document of the claim to look at next, when old ones are removed
	windows   chan windowPart
	fetches   chan fetched
	readers   sync.WaitGroup
}

// job is one thing that the committer does: it appends a batch, or renews the ownership, or removes old runs.
type job struct {
	batch *journal.Batch // the batch to append; nil: nothing
	renew uint64         // the owner's epoch; 0: nothing to renew
	prune core.Time      // removes runs that closed before
	// claims is the document from which on claims of removed runs are looked for.
	claims string
}

// result is the result of a job.
type result struct {
	job    job
	pruned int // how many runs were removed
	// claims are the claims of removed runs that were found, nextClaim is where to go on.
	claims    []journal.Document
	nextClaim string
	began     time.Time     // when the job began
	took      time.Duration // the duration of an append
	err       error
}

// fetched is what a reader found in the inbox for messages of other partitions.
type fetched struct {
	fetch    Fetch
	messages []journal.Message
	err      error
}

// windowPart is some of the runs of a window, or the end of the window with the arguments of Partition.WindowDone.
type windowPart struct {
	window Window
	runs   []Loaded
	end    bool
	far    core.Time
	err    error
}
