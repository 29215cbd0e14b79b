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
	engines []*Engine
	next    atomic.Uint64 // runs without a workflow id or key go to the partitions in turn
	opened  int           // how many engines are open; protected by Engine.opening of the engine in front
	end     sync.Once     // closes Engine.done of the engine in front
}

// newParts returns an engine in front of one engine for each partition.
func newParts(cfg Config, defs *definitions, n int) *Engine {
	front := &Engine{parts: &parts{}, cfg: cfg, defs: defs, done: make(chan struct{})}
	for i := range n {
		own := cfg
		own.Partition, own.BeforeRecovery = i, nil
		own.Sent = func(to int) { front.parts.engines[to].Expect() }
		front.parts.engines = append(front.parts.engines, newEngine(own, defs))
	}
	return front
}

// all returns the engines of all partitions.
func (e *Engine) all() []*Engine {
	if e.parts == nil {
		return []*Engine{e}
	}
	return e.parts.engines
}

// of returns the engine of a run's partition.
func (e *Engine) of(run core.RunID) *Engine { return e.ofKey(core.PartitionKey(run)) }

func (e *Engine) ofKey(key uint16) *Engine {
	if e.parts == nil {
		return e
	}
	return e.parts.engines[int(key)%len(e.parts.engines)]
}

// home returns the engine in whose partition a start creates or finds its run.
func (e *Engine) home(r *StartRequest) (*Engine, error) {
	if e.parts == nil {
		return e, nil
	}
	n := len(e.parts.engines)
	home, named, err := Home(r, n)
	if !named {
		home = int(e.parts.next.Add(1) % uint64(n))
	}
	return e.parts.engines[home], err
}

// open opens the partitions that are not open yet. The engine in front ends when one of them ends.
func (p *parts) open(ctx context.Context, front *Engine) error {
	if p.opened == 0 && front.cfg.BeforeRecovery != nil {
		if err := endLeftovers(ctx, front.cfg.BeforeRecovery); err != nil {
			return err
		}
	}
	for _, e := range p.engines[p.opened:] {
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
	var all sync.WaitGroup
	for i, e := range p.engines {
		all.Go(func() { errs[i] = e.Close() })
	}
	all.Wait()
	p.end.Do(func() { close(front.done) })
	<-front.done
	return errors.Join(errs...)
}

// err returns the first error of an engine that takes no requests.
func (p *parts) err() error {
	for _, e := range p.engines {
		if err := e.Err(); err != nil {
			return err
		}
	}
	return nil
}

// stats adds up the counts of all partitions.
func (p *parts) stats() (sum Stats) {
	for _, e := range p.engines {
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
func (p *parts) feed(ctx context.Context, name string, fn func(seq uint64, entries []core.Entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var one sync.Mutex
	errs := make(chan error, len(p.engines))
	for _, e := range p.engines {
		go func() {
			errs <- e.Feed(ctx, name, func(seq uint64, entries []core.Entry) error {
				one.Lock()
				defer one.Unlock()
				return fn(seq, entries)
			})
		}()
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

func (p *parts) beginFeed(ctx context.Context, name string) error {
	var errs []error
	for _, e := range p.engines {
		errs = append(errs, e.BeginFeed(ctx, name))
	}
	return errors.Join(errs...)
}

func (p *parts) dropFeed(ctx context.Context, name string) error {
	var errs []error
	for _, e := range p.engines {
		errs = append(errs, e.DropFeed(ctx, name))
	}
	return errors.Join(errs...)
}
