package pawltest

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// AwaitRun waits for the end of a run's chain, as a run's Result does. If a body of that chain, or of one of its child
// runs, is stuck, it returns the error of [pawl.Engine.Problem]. Otherwise the test would wait for ever.
func (e *Env) AwaitRun(ctx context.Context, id string) (client.Outcome, error) {
	e.checkMade()
	engine := e.Engine
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var out client.Outcome
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err = engine.AwaitRun(ctx, id)
	}()
	for {
		changed, times := e.stops.counts()
		if problem := problemOf(ctx, engine, id, times); problem != nil {
			cancel()
			<-ended
			return client.Outcome{}, problem
		}
		select {
		case <-ended:
			return out, err
		case <-changed:
		}
	}
}

// AllowStuck says that the test is about bodies that cannot go on. Without it, a run whose body is stuck when the test
// ends fails the test, also one that nobody waits for.
func (e *Env) AllowStuck() {
	e.checkMade()
	e.stuck = true
}

// checkStuck fails the test if the body of an open run that stopped in this engine cannot go on.
func (e *Env) checkStuck() {
	e.t.Helper()
	if e.stuck || e.t.Failed() {
		return
	}
	_, times := e.stops.counts()
	for run, s := range times {
		if s.at != e {
			continue
		}
		if problem := s.problem(run); problem != nil {
			e.t.Errorf("pawltest: a run is stuck when the test ends; if the test is about that, call AllowStuck: %v",
				problem)
		}
	}
}

// patience is how often a body may exceed its task timeout before the run counts as stuck. The body may be waiting for
// something that still comes.
const patience = 10

// problemOf returns the error that keeps a run from ever ending, or nil. times is how often each body has stopped.
func problemOf(ctx context.Context, engine *pawl.Engine, id string, times map[string]stop) error {
	for run, s := range times {
		problem := s.problem(run)
		if problem == nil {
			continue
		}
		d, err := engine.DescribeRun(ctx, id)
		if err == nil && belongs(ctx, engine, run, d.ID) {
			return problem
		}
	}
	return nil
}

// stop is how often the body of a run has stopped, and where it did so last.
type stop struct {
	times int
	at    *Env
}

// problem returns the error that keeps the body from going on; nil: nothing does, or it may be over soon.
func (s stop) problem(run string) error {
	problem := s.at.current.Load().Problem(run)
	var late *pawl.TaskTimeoutError
	if errors.As(problem, &late) && s.times < patience {
		return nil
	}
	for _, elsewhere := range []error{pawl.ErrClosed, pawl.ErrHeld, pawl.ErrNotFound} {
		if errors.Is(problem, elsewhere) { // the run moves to another node, or is gone
			return nil
		}
	}
	return problem
}

// belongs reports whether a run is the run to, a later run of its chain, or a child below it.
func belongs(ctx context.Context, engine *pawl.Engine, run, to string) bool {
	for run != to {
		switch r, err := engine.Explain(ctx, run); {
		case err != nil:
			return false
		case r.Previous != "":
			run = r.Previous
		case r.Parent != "":
			run = r.Parent
		default:
			return false
		}
	}
	return true
}

// stops counts how often bodies have stopped. It passes that on to the test's own observer.
type stops struct {
	next func(client.RunObservation) // nil: none

	mu      sync.Mutex
	times   map[string]stop // those of each run
	changed chan struct{}   // closed and replaced when a body stops
}

func newStops(next func(client.RunObservation)) *stops {
	return &stops{next: next, times: map[string]stop{}, changed: make(chan struct{})}
}

func (s *stops) stopped(at *Env, o client.RunObservation) {
	s.mu.Lock()
	s.times[o.ID] = stop{s.times[o.ID].times + 1, at}
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if s.next != nil {
		s.next(o)
	}
}

// counts returns how often each body has stopped, and a channel that is closed when that changes.
func (s *stops) counts() (changed chan struct{}, times map[string]stop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed, maps.Clone(s.times)
}
