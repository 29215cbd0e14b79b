package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
)

// Engine runs all partitions of a journal, one or many, with a driver for each. They share definitions, workers and
// slots, and tell each other when they have sent messages. The engine passes each call to the driver of the run's
// partition. New makes an engine, Open starts it. All methods are safe for concurrent use.
type Engine struct {
	cfg   Config
	defs  *definitions
	state atomic.Pointer[status] // set when the engine has ended
	done  chan struct{}          // closed when the engine has ended
	end   sync.Once              // closes done

	drivers []atomic.Pointer[driver]
	coming  []atomic.Pointer[driver] // those that Take opens at present
	moves   []sync.Mutex             // one Take or Give of each partition at a time
	next    atomic.Uint64            // runs without a workflow id or key go to the partitions in turn

	opening sync.Mutex
	opened  int  // how many drivers are open; protected by opening
	closed  bool // protected by opening

	newest newest // the starts that wait for the run before with their workflow id

	mu      sync.Mutex
	changed chan struct{} // closed when the engine takes or gives a partition; protected by mu
	// begun has by its name in which partitions a feed was made that nobody has read yet. Protected by mu.
	begun map[string][]*driver
}

// New returns an engine that does nothing yet: it has no goroutine and touches no storage. Workers and bodies can
// already be made with it. Calls and reports wait until Open. Close the engine even if Open was not called. Errors:
// CodeInvalid, if the configuration cannot be used.
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
	n := cfg.Journal.PartitionCount()
	e := &Engine{
		cfg: cfg, defs: defs, done: make(chan struct{}), drivers: make([]atomic.Pointer[driver], n),
		coming: make([]atomic.Pointer[driver], n), moves: make([]sync.Mutex, n), changed: make(chan struct{}),
		begun: map[string][]*driver{},
	}
	for i := range n {
		if cfg.Shared {
			e.drivers[i].Store(away(cfg, defs, i))
		} else {
			e.drivers[i].Store(e.driverOf(i))
		}
	}
	return e, nil
}

// driverOf returns a new driver of a partition. The one of a single partition ends leftovers itself, once it owns the
// partition.
func (e *Engine) driverOf(partition int) *driver {
	own := e.cfg
	own.Partition = partition
	if len(e.drivers) > 1 {
		own.BeforeRecovery = nil
	}
	own.Sent = func(to int) {
		if !e.at(to).expect() {
			e.cfg.Sent(to)
		}
	}
	return newDriver(own, e.defs)
}

func (e *Engine) at(partition int) *driver { return e.drivers[partition].Load() }

// all returns the drivers of all partitions, but for those that other processes own.
func (e *Engine) all() []*driver {
	out := make([]*driver, 0, len(e.drivers))
	for i := range e.drivers {
		if !e.cfg.Shared || e.runs(i) {
			out = append(out, e.at(i))
		}
	}
	return out
}

// of returns the driver of a run's partition.
func (e *Engine) of(run core.RunID) *driver { return e.ofKey(core.PartitionKey(run)) }

func (e *Engine) ofKey(key uint16) *driver { return e.at(int(key) % len(e.drivers)) }

// within returns the driver that hears of a run's workers and bodies. That is the one of its partition also while it is
// being opened, since it gives them work then.
func (e *Engine) within(run core.RunID) *driver {
	return e.hearing(int(core.PartitionKey(run)) % len(e.drivers))
}

// hearing returns the driver that hears of what concerns a partition.
func (e *Engine) hearing(partition int) *driver {
	if part := e.coming[partition].Load(); part != nil {
		return part
	}
	return e.at(partition)
}

// home returns the driver in whose partition a start creates or finds its run.
func (e *Engine) home(r *StartRequest) (*driver, error) {
	home, named, err := Home(r, len(e.drivers))
	if named || err != nil {
		return e.at(home), err
	}
	if len(e.drivers) == 1 && !e.cfg.Shared {
		return e.at(0), nil // there is nothing to choose
	}
	own := e.all()
	if len(own) == 0 {
		return nil, noPartition()
	}
	return own[int(e.next.Add(1)%uint64(len(own)))], nil
}

// Open takes the partitions over, replays the journal's tail and starts the loops. Runs that were active before are
// recovered while the engine already takes requests. ctx bounds only the opening. The engine works until Close, which
// closes neither the journal nor the workers. After an error, Open may be called again: it opens those that are not
// open yet. The engine ends when one of them ends.
// Errors: CodeHeld (another process owns a partition; try again later), CodeStalled, CodeStorage, CodeInternal.
func (e *Engine) Open(ctx context.Context) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.closed || e.opened == len(e.drivers) {
		return &Error{Code: CodeClosed, Op: "open", Err: errors.New("the engine was opened or closed before")}
	}
	if e.opened == 0 && len(e.drivers) > 1 && e.cfg.BeforeRecovery != nil {
		if err := endLeftovers(ctx, e.cfg.BeforeRecovery); err != nil {
			return err
		}
	}
	if e.cfg.Shared {
		e.opened = len(e.drivers)
		return nil
	}
	for e.opened < len(e.drivers) {
		part := e.at(e.opened)
		if err := part.open(ctx); err != nil {
			return err
		}
		e.opened++
		go func() {
			<-part.done
			e.ended()
		}()
	}
	return nil
}

// ended says that the engine has ended.
func (e *Engine) ended() { e.end.Do(func() { close(e.done) }) }

// Close takes no more requests, saves all that has happened, completes the view, and ends. Close the workers first: a
// report that comes later is lost, and its attempt runs again after the next Open. If the journal took no writes at the
// end, Close returns its error. All partitions close at the same time, so that they need not wait for one another.
func (e *Engine) Close() error {
	errs := make([]error, len(e.drivers))
	e.opening.Lock()
	e.closed = true
	e.opening.Unlock()
	e.state.CompareAndSwap(nil, closedStatus())
	var all sync.WaitGroup
	for i := range e.drivers {
		if e.cfg.Shared {
			all.Go(func() { errs[i] = e.Give(i) })
		} else {
			all.Go(func() { errs[i] = e.at(i).close() })
		}
	}
	all.Wait()
	e.ended()
	return errors.Join(errs...)
}

// Done returns a channel that is closed when the engine has ended, by Close or by an error. Err then returns the error.
// CodeFenced means that another engine owns a partition; other engines of this process go on. CodeStorage means that
// the journal cannot be used any more.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Err returns why a partition takes no requests. It returns nil while all of them take them.
func (e *Engine) Err() error {
	for _, part := range e.all() {
		if err := part.err(); err != nil && !errors.Is(err, errHeld) {
			return err
		}
	}
	if s := e.state.Load(); s != nil {
		return s.err
	}
	return nil
}

// Serve adds workers. The name is recorded with the attempts that they execute. If it is empty, the name of the
// partition's owner is recorded.
func (e *Engine) Serve(name string, w slots.Workers) {
	e.cfg.Matcher.Add(name, w)
	e.Rematch()
}

// ServePlaced adds workers whose slots are in several places; see Serve.
func (e *Engine) ServePlaced(name string, w slots.Placed) {
	e.cfg.Matcher.AddPlaced(name, w)
	e.Rematch()
}

// ServeRemote adds workers in other processes; see Serve.
func (e *Engine) ServeRemote(name string, w slots.RemoteWorkers) {
	e.cfg.Matcher.AddRemote(name, w)
	e.Rematch()
}

// Report implements worker.Reporter. It takes a worker's TaskEnded, TaskStopped or Beat. An output that is too large
// makes the attempt fail.
func (e *Engine) Report(run core.RunID, in core.Input) {
	e.within(run).requests.put(request{rep: report{run, e.bounded(in)}})
}

// bounded makes an attempt fail whose output is too large.
func (e *Engine) bounded(in core.Input) core.Input {
	if end, ok := in.(core.TaskEnded); ok && len(end.Output) > e.cfg.MaxPayload {
		return e.cfg.bounded(end)
	}
	return in
}

// Confirm implements worker.Confirmer. It reports, and calls done when the report is durable, or with true if the
// attempt had ended before.
func (e *Engine) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	e.Do(run, nil, []core.Input{in}, func(err error) {
		var own *Error
		done(errors.As(err, &own) && own.Code != CodeUncertain && own.Code != CodeStalled)
	})
}

// Rematch says that workers or bodies may take attempts now that they could not take before.
func (e *Engine) Rematch() {
	for i := range e.drivers {
		e.hearing(i).requests.put(request{})
	}
}

// Stats counts what the engine holds in all its partitions.
func (e *Engine) Stats() (sum Stats) {
	for _, part := range e.all() {
		s := part.stats()
		sum.Loaded += s.Loaded
		sum.Queued += s.Queued
		sum.Live += s.Live
		sum.Seq += s.Seq
		sum.Behind += s.Behind
		sum.SetAside += s.SetAside
		sum.Late = max(sum.Late, s.Late)
		sum.Wake, sum.Next = earliest(sum.Wake, s.Wake), earliest(sum.Next, s.Next)
		sum.Moving = sum.Moving || s.Moving
		if sum.Stalled == "" {
			sum.Stalled = s.Stalled
		}
	}
	return sum
}
