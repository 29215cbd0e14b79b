package engine

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// decidesElsewhere is a decider that leaves the run to its body.
type decidesElsewhere struct{}

func (decidesElsewhere) Decide(_ *core.Run, closed []core.StepID, _ core.Time) []core.Command {
	return []core.Command{core.Consult{Closed: closed}}
}

func (decidesElsewhere) Match(*core.Run, *core.Step, string, *policy.Failure, []byte, core.Time) policy.Match {
	return policy.Match{}
}

func (decidesElsewhere) Task(*core.Run, *core.Step, core.Time) ([]byte, *policy.Failure) {
	return nil, nil
}

// quickBodies close each run as soon as they hear of it. Silent ones decide nothing until the test is over.
type quickBodies struct {
	engine *Engine
	silent bool
}

func (b *quickBodies) Consult(n News) {
	if !n.Whole || b.silent {
		return
	}
	decided := core.Commands{Commands: []core.Command{core.Close{Phase: core.RunSucceeded, Output: []byte("1")}}}
	b.engine.Do(n.Run, NewBody(0), []core.Input{decided}, nil)
}

func (*quickBodies) CanBegin(core.RunID, string, string, string) bool { return true }
func (*quickBodies) Forget(core.RunID)                                {}
func (*quickBodies) Reset(int, func(core.RunID) bool)                 {}

// kindsWith are the kinds of a test whose runs have those bodies.
func kindsWith(b Bodies) map[string]Kind {
	def := &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return decidesElsewhere{} }, HasBody: true, HandlesCancel: true,
	}
	compile := func(journal.Definition) (*core.Definition, error) { return def, nil }
	return map[string]Kind{"plan": {Compile: compile, Bodies: b}}
}

// TestStartAndDecisionAreOneCommit: what a body decides while its run's start waits to be saved is saved with it.
func TestStartAndDecisionAreOneCommit(t *testing.T) {
	var mu sync.Mutex
	var commits []int // how many entries each had
	b := new(quickBodies)
	e, _ := open(t, memory.New(), -1, succeed, func(c *Config) {
		c.Kinds = kindsWith(b)
		c.Observer.Committed = func(_ time.Duration, entries, _ int) {
			mu.Lock()
			defer mu.Unlock()
			if entries > 0 {
				commits = append(commits, entries)
			}
		}
	})
	b.engine = e
	id := mustStart(t, e, flow("decides"))
	out, err := e.Result(t.Context(), id)
	if err != nil || out.Phase != core.RunSucceeded {
		t.Fatalf("%+v %v", out, err)
	}
	closeEngine(t, e)
	mu.Lock()
	defer mu.Unlock()
	if len(commits) != 1 || commits[0] != 2 {
		t.Errorf("the commits have %v entries, want one with 2", commits)
	}
}

// TestStartWaitsForNoDecision: a start is acknowledged although the body decides nothing.
func TestStartWaitsForNoDecision(t *testing.T) {
	b := &quickBodies{silent: true}
	e, _ := open(t, memory.New(), -1, succeed, func(c *Config) { c.Kinds = kindsWith(b) })
	b.engine = e
	mustStart(t, e, flow("computes"))
	closeEngine(t, e)
}
