package engine

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// decidesElsewhere is a decider that leaves the run to its body.
type decidesElsewhere struct{}

func (decidesElsewhere) Decide(_ *core.Run, closed []core.StepID, _ core.Time) []core.Command {
	return []core.Command{core.Consult{Closed: closed}}
}

func (decidesElsewhere) Match(*core.Run, *core.Step, string, *policy.Failure, []byte, core.Time) judge.Match {
	return judge.Match{}
}

func (decidesElsewhere) Task(*core.Run, *core.Step, core.Time) ([]byte, *policy.Failure) {
	return nil, nil
}

// quickBodies close each run as soon as they hear of it. Silent ones decide nothing until the test is over.
type quickBodies struct {
	engine *Engine
	silent bool
}

func (b *quickBodies) Consult(n News) (decides bool) {
	if !n.Whole || b.silent {
		return true // the call is in vain
	}
	decided := core.Commands{Commands: []core.Command{core.Close{Phase: core.RunSucceeded, Output: []byte("1")}}}
	b.engine.Do(n.Run, NewBody(0), []core.Input{decided}, nil)
	return true
}

func (*quickBodies) CanBegin(core.RunID, string, string, string) bool { return true }
func (*quickBodies) Forget(core.RunID)                                {}
func (*quickBodies) Reset(int, func(core.RunID) bool)                 {}

// kindsWith returns the kinds of a test whose runs have the given bodies.
func kindsWith(b Bodies) map[string]Kind {
	def := &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return decidesElsewhere{} }, HasBody: true, HandlesCancel: true,
	}
	compile := func(journal.Definition) (*core.Definition, error) { return def, nil }
	return map[string]Kind{"plan": {Compile: compile, Bodies: b}}
}

// TestStartAndDecisionAreOneCommit checks that a decision that a body makes while its run's start waits to be saved is
// saved with it, if a commit takes some time.
func TestStartAndDecisionAreOneCommit(t *testing.T) {
	for latency, want := range map[time.Duration][]int{time.Second: {1, 1, 2}, 0: {1, 1, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var commits []int // how many entries each had
			b := new(quickBodies)
			j := &slowJournal{Journal: memory.New(), latency: latency}
			e, _ := open(t, j, -1, succeed, func(c *Config) {
				c.Kinds = kindsWith(b)
				c.Observer.Committed = func(_ time.Duration, entries, _ int) {
					if entries > 0 {
						commits = append(commits, entries)
					}
				}
			})
			b.engine = e
			for _, name := range []string{"before the first commit", "after it"} {
				out, err := e.Result(t.Context(), mustStart(t, e, flow(name)))
				if err != nil || out.Phase != core.RunSucceeded {
					t.Fatalf("%+v %v", out, err)
				}
			}
			closeEngine(t, e)
			if !slices.Equal(commits, want) {
				t.Errorf("where a commit takes %s, they have %v entries, want %v", latency, commits, want)
			}
		})
	}
}

// TestStartWaitsForNoDecision checks that a start is acknowledged after one commit although the body decides nothing,
// and the start after it does not wait for its body.
func TestStartWaitsForNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &quickBodies{silent: true}
		var looks atomic.Int64 // reads of the clock
		e, _ := open(t, &slowJournal{Journal: memory.New(), latency: time.Second}, -1, succeed, func(c *Config) {
			c.Kinds = kindsWith(b)
			c.Now = func() core.Time {
				looks.Add(1)
				return policy.At(time.Now())
			}
		})
		b.engine = e
		mustStart(t, e, flow("before the first commit"))
		for i := range restAfterVain + 2 {
			<-time.After(time.Minute) // the rows of the run before it are saved by then
			before, began := looks.Load(), time.Now()
			mustStart(t, e, flow("computes"))
			if took := time.Since(began); took != time.Second {
				t.Errorf("start %d took %s, want one commit", i, took)
			}
			waits, want := looks.Load()-before >= patientLooks, i%(restAfterVain+1) == 0
			if waits != want {
				t.Errorf("start %d waits for a decision: %t, want %t", i, waits, want)
			}
		}
		closeEngine(t, e)
	})
}
