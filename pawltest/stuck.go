package pawltest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
)

// AwaitRun waits for the end of a run's chain, as a run's Result does. Where a body of that chain, or of its child runs, cannot
// go on it returns what [pawl.Engine.Problem] says: nothing else would happen, and time would pass for ever.
func (e *Env) AwaitRun(ctx context.Context, id string) (pawl.Outcome, error) {
	engine := e.Engine
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var out pawl.Outcome
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err = engine.AwaitRun(ctx, id)
	}()
	for {
		news, times := e.stops.look()
		if problem := problemOf(ctx, engine, id, times); problem != nil {
			cancel()
			<-ended
			return pawl.Outcome{}, problem
		}
		select {
		case <-ended:
			return out, err
		case <-news:
		}
	}
}

// patience is how often a body may spend too long outside of its steps: what it waits for may come.
const patience = 10

// problemOf returns what keeps a run from its end for ever; nil: nothing. times are how often bodies have stopped.
func problemOf(ctx context.Context, engine *pawl.Engine, id string, times map[string]int) error {
	for run, n := range times {
		problem := engine.Problem(run)
		var late *pawl.TaskTimeoutError
		if problem == nil || errors.As(problem, &late) && n < patience {
			continue
		}
		d, err := engine.DescribeRun(ctx, id)
		if err == nil && belongs(ctx, engine, run, d.ID) {
			return problem
		}
	}
	return nil
}

// belongs reports whether a run is that one, of its chain, or below it.
func belongs(ctx context.Context, engine *pawl.Engine, run, to string) bool {
	for run != to {
		history, err := engine.History(ctx, run)
		if err != nil || len(history) == 0 || len(history[0].Records) == 0 {
			return false
		}
		created, ok := history[0].Records[0].(core.RunCreated)
		switch none := (core.RunID{}); {
		case !ok:
			return false
		case created.Chain.Previous != none:
			run = created.Chain.Previous.String()
		case created.Parent.Run != none:
			run = created.Parent.Run.String()
		default:
			return false
		}
	}
	return true
}

// stops counts how often bodies have stopped. It is the engine's observer, in front of the test's own.
type stops struct {
	next pawl.Observer // nil: none

	mu    sync.Mutex
	times map[string]int
	news  chan struct{} // closed by the next one
}

func newStops(next pawl.Observer) *stops {
	return &stops{next: next, times: map[string]int{}, news: make(chan struct{})}
}

func (s *stops) AttemptEnded(a pawl.AttemptInfo, took time.Duration, err error) {
	if s.next != nil {
		s.next.AttemptEnded(a, took, err)
	}
}

func (s *stops) BodyStopped(run string, err error) {
	s.mu.Lock()
	s.times[run]++
	close(s.news)
	s.news = make(chan struct{})
	s.mu.Unlock()
	if s.next != nil {
		s.next.BodyStopped(run, err)
	}
}

// look returns how often bodies have stopped, and what is closed when that changes.
func (s *stops) look() (news chan struct{}, times map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news, maps.Clone(s.times)
}
