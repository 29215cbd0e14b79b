package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// TestClockIsSet sets the clock while a run sleeps, one backs off and one has a limit. If it is set forward, everything
// that is due happens once. If it is set back, nothing happens early and no stored instant changes, even after a
// restart.
func TestClockIsSet(t *testing.T) {
	const amount = 10 * time.Minute
	type run struct {
		id core.RunID
		at core.Time // its wake time
	}
	begin := func(r *rig) []run {
		r.workers.act = func(c core.Task) core.Input {
			if c.Workflow == "backoff" && c.Token.Attempt == 1 {
				return failTask(c)
			}
			if c.Workflow == "limit" {
				return nil // the task never ends
			}
			return succeed(c)
		}
		limited := task()
		limited.Timeout = amount
		var runs []run
		for _, p := range []plan{
			flow("sleep", nap(amount)), flow("backoff", task().tries(2, amount)), flow("limit", limited),
		} {
			runs = append(runs, run{id: r.start(p)})
		}
		r.pass(time.Second)
		for i := range runs {
			runs[i].at = r.state(runs[i].id).Wake()
			if d := runs[i].at.Sub(epoch); d < amount || d > amount+time.Second {
				t.Fatalf("the wake time of run %d is after %s", i, d)
			}
		}
		return runs
	}
	ended := func(r *rig, runs []run) {
		t.Helper()
		r.wantPhase(runs[0].id, core.RunSucceeded)
		r.wantPhase(runs[1].id, core.RunSucceeded)
		r.wantPhase(runs[2].id, core.RunFailed)
		if n := len(r.workers.revoked); n != 1 {
			t.Errorf("%d attempts were stopped, want 1", n)
		}
		for token, n := range r.workers.begun {
			if n != 1 {
				t.Errorf("attempt %v was dispatched %d times", token, n)
			}
		}
	}
	t.Run("forward", func(t *testing.T) {
		r := newRig(t, -1)
		runs := begin(r)
		r.now = r.now.Add(time.Hour)
		r.settle()
		ended(r, runs)
	})
	for _, restarts := range []bool{false, true} {
		t.Run(map[bool]string{false: "back", true: "back and restart"}[restarts], func(t *testing.T) {
			r := newRig(t, -1)
			runs := begin(r)
			r.now = r.now.Add(-time.Hour)
			if restarts {
				r.workers.act = nil // the attempt that runs again must not end either
				r.restart()
				r.workers.begun = map[core.Token]int{}
				runs = runs[:2]
			}
			r.start(flow("other", task()))
			r.settle()
			for _, was := range runs {
				if s := r.state(was.id); s.Phase.Closed() || s.Wake() != was.at {
					t.Errorf("the run of %s is %s and its wake time is %s, want %s",
						s.Workflow, s.Phase, s.Wake(), was.at)
				}
			}
			r.now = epoch.Add(amount - time.Second) // shortly before the stored instants
			r.settle()
			for _, was := range runs {
				if s := r.state(was.id); s.Phase.Closed() {
					t.Errorf("the run of %s ended %s too early", s.Workflow, time.Second)
				}
			}
			r.workers.act = succeed
			r.pass(3 * time.Second)
			if !restarts {
				ended(r, runs)
				return
			}
			r.wantPhase(runs[0].id, core.RunSucceeded)
			r.wantPhase(runs[1].id, core.RunSucceeded)
		})
	}
}

// state returns the state of a run, which may be ahead of its durable entries.
func (r *rig) state(id core.RunID) *core.Run {
	r.t.Helper()
	run, err := r.p.get(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return run.state
}

// TestMachineIsSuspended checks that while the machine sleeps, its wall clock goes on and its timers do not. What came
// due meanwhile happens soon after the machine has woken.
func TestMachineIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var suspended atomic.Int64
		e, c := open(t, memory.New(), -1, succeed, func(c *Config) {
			c.Now = func() core.Time { return policy.At(time.Now()).Add(time.Duration(suspended.Load())) }
		})
		defer closeEngine(t, e)
		c.arrived = make(chan core.Task, 1)
		mustStart(t, e, flow("sleeper", nap(time.Hour), task()))
		<-time.After(10 * time.Minute)
		suspended.Store(int64(2 * time.Hour))
		select {
		case <-c.arrived:
		case <-time.After(lookAtClock + time.Second):
			t.Errorf("%s after the machine has woken, a timer that was due has not fired", lookAtClock)
		}
		if late := e.Stats().Late; late < time.Hour {
			t.Errorf("Stats tells of a timer that was %s late, it was more than an hour", late)
		}
	})
}
