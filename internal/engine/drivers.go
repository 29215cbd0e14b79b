package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
)

// drivers run the partitions of a journal, one or many, with a driver for each. If the journal is shared, they run
// those that Take has taken, and stand-ins represent the rest. The partitions share definitions, workers and slots, and
// tell each other when they have sent messages. All methods are safe for concurrent use.
type drivers struct {
	cfg   Config
	defs  *definitions
	state atomic.Pointer[status] // set when the engine has ended
	done  chan struct{}          // closed when the engine has ended
	end   sync.Once              // closes done

	list   []atomic.Pointer[driver]
	coming []atomic.Pointer[driver] // those that Take is opening
	moves  []sync.Mutex             // one Take or Give of each partition at a time
	next   atomic.Uint64            // runs without a workflow id or key go to the partitions in turn

	opening sync.Mutex
	opened  int  // how many drivers are open; protected by opening
	closed  bool // protected by opening

	mu      sync.Mutex
	changed chan struct{} // closed when the engine takes or gives a partition; protected by mu
}

// init makes a driver for each partition.
func (e *drivers) init(cfg Config) {
	n := cfg.Journal.PartitionCount()
	e.cfg, e.defs = cfg, newDefinitions(cfg.Journal, cfg.Kinds)
	e.done, e.changed = make(chan struct{}), make(chan struct{})
	e.list, e.coming = make([]atomic.Pointer[driver], n), make([]atomic.Pointer[driver], n)
	e.moves = make([]sync.Mutex, n)
	for i := range n {
		if cfg.Shared {
			e.list[i].Store(away(cfg, e.defs, i))
		} else {
			e.list[i].Store(e.driverOf(i))
		}
	}
}

// driverOf returns a new driver of a partition.
func (e *drivers) driverOf(partition int) *driver {
	own := e.cfg
	own.Partition = partition
	own.Sent = func(to int) {
		if !e.at(to).expect() {
			e.cfg.Sent(to)
		}
	}
	return newDriver(own, e.defs)
}

func (e *drivers) at(partition int) *driver { return e.list[partition].Load() }

// all returns the drivers of all partitions, but for those that other processes own.
func (e *drivers) all() []*driver { return e.appendAll(make([]*driver, 0, len(e.list))) }

func (e *drivers) appendAll(out []*driver) []*driver {
	for i := range e.list {
		if !e.cfg.Shared || e.runs(i) {
			out = append(out, e.at(i))
		}
	}
	return out
}

// of returns the driver of a run's partition.
func (e *drivers) of(run core.RunID) *driver { return e.ofKey(core.PartitionKey(run)) }

func (e *drivers) ofKey(key uint16) *driver { return e.at(int(key) % len(e.list)) }

// within returns the driver that learns of a run's workers and bodies. That is the one of its partition also while it
// is being opened, since it gives them work then.
func (e *drivers) within(run core.RunID) *driver {
	return e.hearing(int(core.PartitionKey(run)) % len(e.list))
}

// hearing returns the driver that learns of events that concern a partition.
func (e *drivers) hearing(partition int) *driver {
	if part := e.coming[partition].Load(); part != nil {
		return part
	}
	return e.at(partition)
}

// home returns the driver in whose partition a start creates or finds its run.
func (e *drivers) home(r *StartRequest) (*driver, error) {
	home, named, err := Home(r, len(e.list))
	if named || err != nil {
		return e.at(home), err
	}
	own := e.appendAll(make([]*driver, 0, 16)) // the array stays on the stack
	if len(own) == 0 {
		return nil, noPartition()
	}
	return own[int(e.next.Add(1)%uint64(len(own)))], nil
}

// away returns the driver that represents a partition which another process owns. It takes no requests.
func away(cfg Config, defs *definitions, partition int) *driver {
	cfg.Partition = partition
	e := &driver{
		cfg: cfg, defs: defs, requests: newRequestQueue(), stop: make(chan struct{}), done: make(chan struct{}),
	}
	e.gate = make(chan struct{}, 1)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.cancel()
	e.state.Store(&status{err: moved(partition), final: true})
	e.requests.close()
	close(e.done)
	return e
}

// Open takes the partitions over, replays the journal's tail and starts the loops. Runs that were active before are
// recovered while the engine already takes requests. ctx bounds only the opening. The engine works until Close, which
// closes neither the journal nor the workers. After an error, Open may be called again: it opens those that are not
// open yet. The engine ends when one of them ends. Errors: CodeHeld (another process owns a partition; try again
// later), CodeStalled, CodeStorage, CodeInternal.
func (e *drivers) Open(ctx context.Context) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.closed || e.opened == len(e.list) {
		return &Error{Code: CodeClosed, Op: "open", Err: errors.New("the engine was opened or closed before")}
	}
	if before := e.cfg.BeforeRecovery; before != nil && e.opened == 0 {
		if err := before(ctx); err != nil {
			return &Error{
				Code: CodeInternal, Op: "open", Err: err,
				Hint: "processes of earlier attempts still run and could not be ended",
			}
		}
	}
	if e.cfg.Shared {
		e.opened = len(e.list)
		return nil
	}
	for e.opened < len(e.list) {
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

// ended notes that the engine has ended.
func (e *drivers) ended() { e.end.Do(func() { close(e.done) }) }

// Close takes no more requests, saves everything that has happened, completes the view, and ends. Close the workers
// first: a report that comes later is lost, and its attempt runs again after the next Open. If the journal took no
// writes at the end, Close returns its error. All partitions close at the same time, so that they need not wait for one
// another.
func (e *drivers) Close() error {
	errs := make([]error, len(e.list))
	e.opening.Lock()
	e.closed = true
	e.opening.Unlock()
	e.state.CompareAndSwap(nil, closedStatus())
	var all sync.WaitGroup
	for i := range e.list {
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
// the journal can no longer be used.
func (e *drivers) Done() <-chan struct{} { return e.done }

// Err returns why a partition takes no requests. It returns nil while all of them take them.
func (e *drivers) Err() error {
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

// Take takes a partition over, of an engine whose journal is shared. If the engine runs it already, Take does nothing.
// Errors: CodeHeld (another process owns it), CodeInvalid, CodeClosed, CodeStorage, CodeStalled.
func (e *drivers) Take(ctx context.Context, partition int) error {
	if err := e.checkShared(partition); err != nil {
		return err
	}
	e.moves[partition].Lock()
	defer e.moves[partition].Unlock()
	if e.runs(partition) {
		return nil
	}
	part := e.driverOf(partition)
	e.coming[partition].Store(part)
	defer e.coming[partition].Store(nil)
	if err := part.open(ctx); err != nil {
		// Callers that came meanwhile get this error.
		part.state.CompareAndSwap(nil, &status{err: moved(partition), final: true})
		return errors.Join(err, part.close())
	}
	e.opening.Lock()
	closed := e.closed
	if !closed {
		e.list[partition].Store(part)
		e.tell()
	}
	e.opening.Unlock()
	if closed {
		return errors.Join(e.Err(), part.close())
	}
	go func() {
		<-part.done
		e.lost(partition, part)
	}()
	return nil
}

// Give ends the work on a partition and gives it back: everything that has happened is saved, the view is completed,
// and the next owner can take it at once. Attempts of workers in this process are stopped; the next owner makes them
// again. Those of workers in other processes go on. If the engine does not run the partition, Give does nothing.
func (e *drivers) Give(partition int) error {
	if err := e.checkShared(partition); err != nil {
		return err
	}
	e.moves[partition].Lock()
	defer e.moves[partition].Unlock()
	part := e.at(partition)
	if !e.runs(partition) {
		return nil
	}
	part.given.Store(true)
	part.state.CompareAndSwap(nil, &status{err: moved(partition), final: true})
	err := part.close()
	e.lost(partition, part)
	return err
}

func (e *drivers) checkShared(partition int) error {
	if !e.cfg.Shared || partition < 0 || partition >= len(e.list) {
		return invalid("engine", "", "partition %d cannot be moved here", partition)
	}
	return nil
}

// Owned returns the partitions that this engine runs, in order.
func (e *drivers) Owned() []int {
	var out []int
	for _, part := range e.all() {
		out = append(out, part.cfg.Partition)
	}
	return out
}

// Changed returns a channel that is closed when this engine runs other partitions than now.
func (e *drivers) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// PartitionOf returns the partition of a run.
func (e *drivers) PartitionOf(run core.RunID) int {
	return int(core.PartitionKey(run)) % e.cfg.Journal.PartitionCount()
}

// runs reports whether the driver of a partition takes requests, or will again.
func (e *drivers) runs(partition int) bool {
	part := e.at(partition)
	s := part.state.Load()
	return s == nil || !s.final
}

// lost replaces a driver that has ended by the stand-in. If no driver of this process can use the journal any longer,
// the engine ends.
func (e *drivers) lost(partition int, part *driver) {
	stand := away(e.cfg, e.defs, partition)
	if err := part.err(); journalLost(err) {
		e.state.CompareAndSwap(nil, &status{err: err, final: true})
		e.ended()
	}
	if e.list[partition].CompareAndSwap(part, stand) {
		e.tell()
	}
}

// tell wakes those who follow which partitions the engine runs.
func (e *drivers) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.changed)
	e.changed = make(chan struct{})
}

// Rematch reports that workers or bodies may take attempts that they could not take before.
func (e *drivers) Rematch() {
	for i := range e.list {
		e.hearing(i).requests.put(request{})
	}
}

// Stats counts what the engine holds in all its partitions.
func (e *drivers) Stats() (sum Stats) {
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

// noPartition returns the error of a start on an engine that runs no partition.
func noPartition() error {
	return &Error{
		Code: CodeHeld, Op: "start", Err: fmt.Errorf("this node has no partition at present"),
		Hint: "nothing was saved; try again in a moment, or ask another node",
	}
}

// Runs reports whether this engine runs a partition.
func (e *drivers) Runs(partition int) bool {
	return e.cfg.Shared && partition >= 0 && partition < len(e.list) && e.runs(partition)
}

// ExpectAt reports that messages for a partition may have come.
func (e *drivers) ExpectAt(partition int) {
	if partition >= 0 && partition < len(e.list) {
		e.hearing(partition).expect()
	}
}

// PartitionCount returns how many partitions the journal has.
func (e *drivers) PartitionCount() int { return e.cfg.Journal.PartitionCount() }
