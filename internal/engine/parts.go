package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
)

// parts holds the engines of a journal with several partitions, one engine for each partition. They share definitions,
// workers and slots, and tell each other when they have sent messages. The user sees one engine in front of them, which
// passes each call to the engine of the run's partition.
type parts struct {
	engines []atomic.Pointer[Engine]
	coming  []atomic.Pointer[Engine] // those that Take opens at present
	moves   []sync.Mutex             // one Take or Give of each partition at a time
	next    atomic.Uint64            // runs without a workflow id or key go to the partitions in turn
	opened  int                      // how many engines are open; protected by Engine.opening of the engine in front
	closed  bool                     // protected by Engine.opening of the engine in front
	end     sync.Once                // closes Engine.done of the engine in front

	mu      sync.Mutex
	changed chan struct{} // closed when the engine takes or gives a partition; protected by mu
	// begun has by its name in which partitions a feed was made that nobody has read yet. Protected by mu.
	begun map[string][]*Engine
}

// newParts returns an engine in front of one engine for each partition.
func newParts(cfg Config, defs *definitions, n int) *Engine {
	p := &parts{
		engines: make([]atomic.Pointer[Engine], n), coming: make([]atomic.Pointer[Engine], n),
		moves: make([]sync.Mutex, n), changed: make(chan struct{}), begun: map[string][]*Engine{},
	}
	front := &Engine{parts: p, cfg: cfg, defs: defs, done: make(chan struct{})}
	for i := range n {
		if cfg.Shared {
			p.engines[i].Store(away(cfg, defs, i))
		} else {
			p.engines[i].Store(p.own(front, i))
		}
	}
	return front
}

// own returns a new engine for a partition.
func (p *parts) own(front *Engine, partition int) *Engine {
	own := front.cfg
	own.Partition, own.BeforeRecovery = partition, nil
	own.Sent = func(to int) {
		if !p.at(to).Expect() {
			front.cfg.Sent(to)
		}
	}
	return newEngine(own, front.defs)
}

func (p *parts) at(partition int) *Engine { return p.engines[partition].Load() }

// all returns the engines of all partitions, but for those that other processes own.
func (e *Engine) all() []*Engine {
	if e.parts == nil {
		return []*Engine{e}
	}
	out := make([]*Engine, 0, len(e.parts.engines))
	for i := range e.parts.engines {
		if !e.cfg.Shared || e.parts.runs(i) {
			out = append(out, e.parts.at(i))
		}
	}
	return out
}

// of returns the engine of a run's partition.
func (e *Engine) of(run core.RunID) *Engine { return e.ofKey(core.PartitionKey(run)) }

func (e *Engine) ofKey(key uint16) *Engine {
	if e.parts == nil {
		return e
	}
	return e.parts.at(int(key) % len(e.parts.engines))
}

// within returns the engine that hears of a run's workers and bodies. That is the one of its partition also while it is
// being opened, since it gives them work then.
func (e *Engine) within(run core.RunID) *Engine {
	if e.parts == nil {
		return e
	}
	return e.parts.within(int(core.PartitionKey(run)) % len(e.parts.engines))
}

func (p *parts) within(partition int) *Engine {
	if part := p.coming[partition].Load(); part != nil {
		return part
	}
	return p.at(partition)
}

// home returns the engine in whose partition a start creates or finds its run.
func (e *Engine) home(r *StartRequest) (*Engine, error) {
	if e.parts == nil {
		return e, nil
	}
	n := len(e.parts.engines)
	home, named, err := Home(r, n)
	if named || err != nil {
		return e.parts.at(home), err
	}
	own := e.all()
	if len(own) == 0 {
		return nil, noPartition()
	}
	return own[int(e.parts.next.Add(1)%uint64(len(own)))], nil
}

// open opens the partitions that are not open yet. The engine in front ends when one of them ends.
func (p *parts) open(ctx context.Context, front *Engine) error {
	if p.opened == 0 && front.cfg.BeforeRecovery != nil {
		if err := endLeftovers(ctx, front.cfg.BeforeRecovery); err != nil {
			return err
		}
	}
	if front.cfg.Shared {
		p.opened = len(p.engines)
		return nil
	}
	for p.opened < len(p.engines) {
		e := p.at(p.opened)
		if err := e.Open(ctx); err != nil {
			return err
		}
		p.opened++
		go func() {
			<-e.Done()
			p.end.Do(func() { close(front.done) })
		}()
	}
	return nil
}

// close closes all partitions at the same time, so that they need not wait for one another.
func (p *parts) close(front *Engine) error {
	errs := make([]error, len(p.engines))
	front.opening.Lock()
	p.closed = true
	front.opening.Unlock()
	front.state.CompareAndSwap(nil, closedStatus())
	var all sync.WaitGroup
	for i := range p.engines {
		if front.cfg.Shared {
			all.Go(func() { errs[i] = front.Give(i) })
		} else {
			all.Go(func() { errs[i] = p.at(i).Close() })
		}
	}
	all.Wait()
	p.end.Do(func() { close(front.done) })
	<-front.done
	return errors.Join(errs...)
}

// err returns the first error of an engine that takes no requests.
func (p *parts) err(front *Engine) error {
	for _, e := range front.all() {
		if err := e.Err(); err != nil && !errors.Is(err, errHeld) {
			return err
		}
	}
	if s := front.state.Load(); s != nil {
		return s.err
	}
	return nil
}

// stats adds up the counts of all partitions.
func (p *parts) stats(front *Engine) (sum Stats) {
	for _, e := range front.all() {
		s := e.Stats()
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

// feed reads a feed of each partition and calls fn with one batch at a time. The first error ends all of them.
func (p *parts) feed(
	ctx context.Context, front *Engine, name string, fn func(seq uint64, entries []core.Entry) error,
) error {
	var one sync.Mutex
	oneByOne := func(seq uint64, entries []core.Entry) error {
		one.Lock()
		defer one.Unlock()
		return fn(seq, entries)
	}
	if front.cfg.Shared {
		return p.feedOwned(ctx, front, name, oneByOne)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(p.engines))
	for i := range p.engines {
		e := p.at(i)
		go func() { errs <- e.Feed(ctx, name, oneByOne) }()
	}
	var first error
	for range p.engines {
		if err := <-errs; first == nil {
			first = err
			cancel()
		}
	}
	return first
}

func (p *parts) beginFeed(ctx context.Context, front *Engine, name string) error {
	var errs []error
	all := front.all()
	for _, e := range all {
		errs = append(errs, e.BeginFeed(ctx, name))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[name] = all
	return errors.Join(errs...)
}

func (p *parts) dropFeed(ctx context.Context, front *Engine, name string) error {
	var errs []error
	for _, e := range front.all() {
		errs = append(errs, e.DropFeed(ctx, name))
	}
	return errors.Join(errs...)
}
