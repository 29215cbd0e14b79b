package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addDialect("Z7", zartLateStart)
	addDialect("Z7", zartRetryAtDeadline)
	addDialect("Z7", zartRetryAfterDowntime)
	addDialect("Z11", zartLateEvent)
}

// handRun is a run without an engine: the test says what comes, and when. So something can come after a deadline that
// nobody has noticed yet, as when the engine was down at that instant.
type handRun struct {
	t   *testing.T
	run *core.Run
}

const handEpoch core.Time = 1_000_000_000

func newHandRun(t *testing.T, c *dialect.Conversion) *handRun {
	t.Helper()
	def, err := flow.Compile(c.Flow)
	if err != nil {
		t.Fatal(err)
	}
	start, err := c.Flow.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &handRun{t, core.NewRun(core.RunID{15: 1})}
	in := core.Start{Workflow: "w", Input: start.Input, Execution: start.Execution, Run: start.Run}
	if _, err := core.Advance(h.run, def, in, handEpoch); err != nil {
		t.Fatal(err)
	}
	return h
}

// at lets something come so long after the start. It returns what it did.
func (h *handRun) at(after time.Duration, in core.Input) core.Output {
	h.t.Helper()
	out, err := core.Advance(h.run, nil, in, handEpoch.Add(after))
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *handRun) step(name string) *core.Step {
	h.t.Helper()
	s, ok := h.run.Lookup(name)
	if !ok {
		h.t.Fatalf("there is no step %s", name)
	}
	return s
}

// dispatched reports whether a worker is told to execute an attempt.
func dispatched(out core.Output) bool {
	for _, e := range out.Effects {
		if _, ok := e.(core.Dispatch); ok {
			return true
		}
	}
	return false
}

// zartLateStart checks that an attempt that a worker takes at its deadline or later is not executed, also when nobody
// has noticed the deadline before.
func zartLateStart(t *testing.T) {
	for name, c := range map[string]*dialect.Conversion{
		"step": zartWork(t, "timeout: 10s", ""), "execution": zartWork(t, "", "timeout: 10s"),
	} {
		for after, begins := range map[time.Duration]bool{
			10*time.Second - time.Millisecond: true, 10 * time.Second: false, time.Hour: false,
		} {
			h := newHandRun(t, c)
			out := h.at(after, core.TaskStarted{Attempt: 1, Worker: "late"})
			phase := core.StepTimedOut
			if begins {
				phase = core.StepRunning
			}
			if got := h.step("work").Phase; got != phase || dispatched(out) != begins {
				t.Errorf("%s: taken after %s it is %s, executed: %t", name, after, got, dispatched(out))
			}
		}
	}
}

// zartRetryAtDeadline checks that a retry that would begin at the deadline ends the step at once; one before it is
// made.
func zartRetryAtDeadline(t *testing.T) {
	for _, c := range []*dialect.Conversion{
		zartWork(t, `timeout: 10s, retry: "fixed(3, 4s)"`, ""), zartWork(t, `retry: "fixed(3, 4s)"`, "timeout: 10s"),
	} {
		perform(t, c, map[string][]try{"work": {{run: 6 * time.Second, kind: policy.KindError}}}, nil,
			func(s *stage, r *core.Run) {
				s.wantAttempts("work@0ms-6s error")
				wantStep(t, r, "work", core.StepTimedOut, policy.ReasonNoTimeLeft)
			})
		last := try{run: 6*time.Second - time.Millisecond, kind: policy.KindError}
		perform(t, c, map[string][]try{"work": {last, ok}}, nil,
			func(s *stage, r *core.Run) { s.wantAttempts("work@0ms-5s999ms error", "work@9s999ms-9s999ms ok") })
	}
}

// zartRetryAfterDowntime checks that when both a retry and the deadline after it came while the engine was down, the
// retry is not made any more.
func zartRetryAfterDowntime(t *testing.T) {
	for name, c := range map[string]*dialect.Conversion{
		"step": zartWork(t, `timeout: 10s, retry: "fixed(3, 4s)"`, ""), "execution": zartWork(t,
			`retry: "fixed(3, 4s)"`, "timeout: 10s"),
	} {
		h := newHandRun(t, c)
		h.at(0, core.TaskStarted{Attempt: 1})
		h.at(time.Second, core.TaskEnded{Attempt: 1, Failure: &policy.Failure{Kind: policy.KindError}})
		out := h.at(time.Hour, core.Tick{})
		s := h.step("work")
		if s.Phase != core.StepTimedOut || s.Attempt != 1 {
			t.Errorf("%s: the step is %s in attempt %d after %v", name, s.Phase, s.Attempt, out.Entry.Records)
		}
	}
}

// zartLateEvent checks that an event that comes after the deadline of a wait, or of its run, does not end the wait,
// also when nobody has noticed the deadline before.
func zartLateEvent(t *testing.T) {
	const steps = "steps: [{name: paid, %swait: {event: paid}}]\n"
	for name, c := range map[string]*dialect.Conversion{
		"wait":      formed(t, fmt.Sprintf(steps, "zart: {timeout: 10s}, ")),
		"execution": formed(t, "zart: {timeout: 10s}\n"+fmt.Sprintf(steps, "")),
	} {
		for after, taken := range map[time.Duration]bool{
			10*time.Second - time.Millisecond: true, 10*time.Second + time.Millisecond: false, time.Hour: false,
		} {
			h := newHandRun(t, c)
			h.at(after, core.SignalReceived{Name: "paid", ID: "1", Payload: []byte("7")})
			phase := core.StepTimedOut
			if taken {
				phase = core.StepSucceeded
			}
			if s := h.step("paid"); s.Phase != phase || h.run.Signals[0].Taken != taken {
				t.Errorf("%s: after an event at %s the wait is %s, the event taken: %t", name, after, s.Phase,
					h.run.Signals[0].Taken)
			}
		}
	}
}
