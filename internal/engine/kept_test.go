package engine

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// keptCase is what happens to a run named bad while it is set aside, and how it must show afterwards.
type keptCase struct {
	name string
	// begin starts runs and returns the one that will be set aside, and another one.
	begin func(r *rig) (bad, other core.RunID)
	// meanwhile does what sends a message to the run that is set aside.
	meanwhile  func(r *rig, other core.RunID)
	after      time.Duration // how long the runs then need
	bad, other core.RunPhase
}

// family starts a parent whose child run is bad. The child naps for the time when its task has ended.
func family(onClose string, sleeps time.Duration, l *policy.Limit) func(r *rig) (bad, other core.RunID) {
	return func(r *rig) (bad, other core.RunID) {
		r.plans["bad"] = flow("bad", task(), nap(sleeps)).definition()
		other = r.start(flow("parent", child(`{"name":"bad","close":"`+onClose+`"}`)),
			func(s *StartRequest) { s.Execution = l })
		r.settle()
		for id := range r.p.residents.runs {
			if id != other {
				bad = id
			}
		}
		return bad, other
	}
}

func operation(op core.Op) core.Operation {
	return core.Operation{Op: op, Step: core.NoStep, Actor: "test"}
}

// tenMinutes is a limit of a parent, which ends it before its child has slept.
var tenMinutes = &policy.Limit{After: 10 * time.Minute}

var keptCases = []keptCase{
	{"a child is told to stop", family("", time.Hour, nil), func(r *rig, parent core.RunID) {
		ask(r, &InputCall{Run: parent, Input: operation(core.OpCancel)})
	}, time.Minute, core.RunCancelled, core.RunCancelled},
	{"a child is let go", family("abandon", time.Hour, nil), func(r *rig, parent core.RunID) {
		ask(r, &InputCall{Run: parent, Input: operation(core.OpCancel)})
	}, time.Minute, core.RunWaiting, core.RunCancelled},
	{"a child gets a later deadline", family("", 30*time.Minute, tenMinutes), func(r *rig, parent core.RunID) {
		op := operation(core.OpExtend)
		op.Limit, op.To = policy.LimitExecution, r.now.Add(2*time.Hour)
		ask(r, &InputCall{Run: parent, Input: op})
	}, time.Hour, core.RunSucceeded, core.RunSucceeded},
	{"a run is told of the end that it waits for", func(r *rig) (bad, other core.RunID) {
		bad = r.start(flow("bad", task(), event(core.SignalEnded("job"))),
			func(s *StartRequest) { s.WorkflowID = "waiting" })
		other = r.start(flow("job", nap(time.Second)),
			func(s *StartRequest) { s.WorkflowID, s.Notify = "job", "waiting" })
		r.settle()
		return bad, other
	}, func(*rig, core.RunID) {}, time.Minute, core.RunSucceeded, core.RunSucceeded},
	{"a parent is told of the end of its child", func(r *rig) (bad, other core.RunID) {
		r.plans["kid"] = flow("kid", nap(time.Second)).definition()
		bad = r.start(flow("bad", child(`{"name":"kid"}`)))
		r.settle()
		return bad, core.RunID{}
	}, func(*rig, core.RunID) {}, time.Minute, core.RunSucceeded, 0},
}

// TestMessagesAreKept checks that messages to a run that is set aside, because its code panicked or its definition
// could not be read, take effect when it is taken up again.
func TestMessagesAreKept(t *testing.T) {
	for _, c := range keptCases {
		t.Run(c.name+", the code panicked", func(t *testing.T) {
			r := newRig(t, -1)
			at := &plantedPanic{"decide", 1_000_000}
			r.trap = at.trap
			r.restart()
			bad, other := c.begin(r)
			at.from = 1
			r.p.Report(bad, core.TaskEnded{Attempt: 1}, r.now)
			r.workers.act = succeed
			c.check(r, bad, other, func() { r.trap = nil })
		})
		t.Run(c.name+", the definition was unreadable", func(t *testing.T) {
			r := newRig(t, -1)
			bad, other := c.begin(r)
			r.workers.act = succeed
			r.unknown = "bad"
			r.restart()
			c.check(r, bad, other, func() { r.unknown = "" })
		})
	}
}

func (c *keptCase) check(r *rig, bad, other core.RunID, repair func()) {
	r.t.Helper()
	setAside := func(want bool) {
		r.t.Helper()
		if err := r.p.SetAside(bad); (err != nil) != want {
			r.t.Fatalf("the run is set aside: %v; want %t", err, want)
		}
	}
	r.pass(10 * time.Second)
	setAside(true)
	c.meanwhile(r, other)
	r.pass(time.Minute)
	for range 3 { // the process is started again, and cannot carry the run on yet
		r.restart()
		r.pass(time.Second)
		setAside(true)
	}
	repair()
	r.restart()
	r.pass(c.after)
	setAside(false)
	wanted := map[core.RunID]core.RunPhase{bad: c.bad}
	if other != (core.RunID{}) {
		wanted[other] = c.other
	}
	for id, phase := range wanted {
		run, err := r.p.get(id)
		if err != nil {
			r.t.Fatal(err)
		}
		if run.state.Phase != phase {
			r.t.Errorf("run %s is %s, want %s", id, run.state.Phase, phase)
		}
	}
	in, err := r.journal.Inbox(r.t.Context(), 0, nil, 100)
	if err != nil || len(in) > 0 {
		r.t.Errorf("%d messages are still kept: %v", len(in), err)
	}
}
