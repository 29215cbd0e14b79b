package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addFlow("T1", temporalExecutionInFlow)
	addFlow("T2", temporalRunInFlow)
	addFlow("T4", temporalScheduleToStartInFlow)
	addFlow("T5", temporalStartToCloseInFlow)
	addFlow("T5", temporalStartToCloseStarts)
	addFlow("T6", temporalScheduleToCloseInFlow)
	addFlow("T7", temporalHeartbeatInFlow)
	addFlow("T8", temporalDefaultsInFlow)
	addFlow("T9", temporalCoefficientInFlow)
	addFlow("T10", temporalNonRetryableInFlow)
	addFlow("T11", temporalRunRetryInFlow)
	addFlow("T12", temporalCronInFlow)
}

// addFlow adds a test with flow files in the words of the row's system, after the tests that the row has already.
func addFlow(id string, test func(t *testing.T)) {
	addDialect(id, func(t *testing.T) { t.Run("flow", test) })
}

// formed reads a flow file whose policies are written in the words of other systems.
func formed(t *testing.T, text string) *dialect.Conversion {
	t.Helper()
	doc, err := flow.Parse("w.yaml", []byte("pawl: 1\nname: w\n"+text), dialect.Forms()...)
	if err != nil {
		t.Fatal(err)
	}
	return &dialect.Conversion{Flow: doc}
}

// temporalWork makes a flow of one step called work, with options of its own and of the workflow.
func temporalWork(t *testing.T, activity, workflow string) *dialect.Conversion {
	t.Helper()
	return formed(t, "temporal: {"+workflow+"}\nsteps:\n  - {name: work, temporal: {"+activity+"}, exec: ./work}\n")
}

// once is a retry policy of one attempt, before other fields.
const once = "retryPolicy: {maximumAttempts: 1}, "

// refused fails the test unless the flow is refused, at a place and with a text.
func refused(t *testing.T, text, place, want string) {
	t.Helper()
	_, err := flow.Parse("w.yaml", []byte("pawl: 1\nname: w\n"+text), dialect.Forms()...)
	var all tree.Errors
	if !errors.As(err, &all) || len(all) != 1 || fmt.Sprintf("%d:%d", all[0].Line, all[0].Col) != place ||
		!strings.Contains(all[0].Msg, want) {
		t.Errorf("%s\ngot  %v\nwant %s: %s", text, err, place, want)
	}
}

func wantStep(t *testing.T, r *core.Run, name string, phase core.StepPhase, reason policy.Reason) {
	t.Helper()
	s, ok := r.Lookup(name)
	if !ok || s.Phase != phase || s.Reason != reason {
		t.Errorf("step %s is %s (%s), want %s (%s)", name, s.Phase, s.Reason, phase, reason)
	}
}

// lasts compares when the run, or the last of its chain, ended.
func (s *stage) lasts(want time.Duration) {
	s.t.Helper()
	page, err := s.engine.List(s.t.Context(), journal.Query{Limit: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	var last time.Duration
	for _, row := range page.Runs {
		last = max(last, row.EndedAt.Std().Sub(s.began))
	}
	if last != want {
		s.t.Errorf("it ended after %s, want %s", duration.Format(last), duration.Format(want))
	}
}

// temporalExecutionInFlow checks that the timeout spans retries of the run, and no run follows it.
func temporalExecutionInFlow(t *testing.T) {
	c := temporalWork(t, once+"startToCloseTimeout: 1d",
		"workflowExecutionTimeout: 1h, retryPolicy: {initialInterval: 1m, backoffCoefficient: 1}")
	script := map[string][]try{"work": {{run: 25 * time.Minute, kind: policy.KindError}}}
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-25m error", "work@26m-51m error", "work@52m-1h timeout execution")
		wantPhase(t, r, core.RunFailed) // the first one
		s.lasts(time.Hour)
	})
}

// temporalRunInFlow checks that each run of the chain has its own; without one it is the execution's, which also cuts a
// longer one.
func temporalRunInFlow(t *testing.T) {
	retry := ", retryPolicy: {maximumAttempts: 3, initialInterval: 1m, backoffCoefficient: 1}"
	c := temporalWork(t, "startToCloseTimeout: 1d", "workflowRunTimeout: 10m"+retry)
	perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-10m timeout run", "work@11m-21m timeout run", "work@22m-32m timeout run")
		wantPhase(t, r, core.RunTimedOut)
	})
	for _, workflow := range []string{
		"workflowExecutionTimeout: 10m",
		"workflowExecutionTimeout: 10m, workflowRunTimeout: 20m",
	} {
		c = temporalWork(t, "startToCloseTimeout: 1d", workflow+retry)
		perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-10m timeout execution")
			wantPhase(t, r, core.RunTimedOut)
		})
	}
	// A run that took too long may be one of the failures that are not retried.
	c = temporalWork(t, once+"startToCloseTimeout: 1d",
		`workflowRunTimeout: 10m, retryPolicy: {nonRetryableErrorTypes: ["TemporalTimeout:StartToClose"]}`)
	perform(t, c, map[string][]try{"work": {{run: time.Minute, kind: policy.KindError}}}, func(s *stage) {
		s.pass(30 * time.Second)
		s.change(map[string][]try{"work": {hangs}}) // the second run hangs
	}, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-1m error", "work@1m1s-11m1s timeout run")
	})
}

// temporalScheduleToStartInFlow checks that the limit is per attempt and never retried.
func temporalScheduleToStartInFlow(t *testing.T) {
	one := func(s *stage) { s.slots = 1 }
	c := formed(t, `
steps:
  - {name: blocker, exec: ./block}
  - {name: work, temporal: {scheduleToStartTimeout: 5s, startToCloseTimeout: 1m}, exec: ./work}
`)
	perform(t, c, map[string][]try{"blocker": {{run: 20 * time.Second}}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("blocker@0ms-20s ok", "work@5s-5s timeout scheduleToStart")
		wantStep(t, r, "work", core.StepTimedOut, policy.ReasonTimeoutNotRetryable)
	}, one)
	c = formed(t, `
steps:
  - {name: work, temporal: {scheduleToStartTimeout: 5s, startToCloseTimeout: 1m, retryPolicy: {initialInterval: 10s}},
      exec: ./work}
  - {name: blocker, exec: ./block}
`)
	perform(t, c, map[string][]try{
		"work":    {{run: time.Second, kind: policy.KindError}, ok},
		"blocker": {{run: 13 * time.Second}},
	}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-1s error", "blocker@1s-14s ok", "work@14s-14s ok") // ready at 11s
	}, one)
}

// temporalStartToCloseStarts checks that the clock starts when a worker takes the attempt, here after five minutes of
// waiting for one, and again with the next attempt.
func temporalStartToCloseStarts(t *testing.T) {
	c := formed(t, "steps:\n  - {name: before, exec: ./before}\n"+
		"  - {name: work, exec: ./work, temporal: {startToCloseTimeout: 2m, retryPolicy: {maximumAttempts: 2}}}\n")
	perform(t, c, map[string][]try{"before": {{run: 5 * time.Minute}}, "work": {hangs, {run: time.Minute}}}, nil,
		func(s *stage, _ *core.Run) {
			s.wantAttempts("before@0ms-5m ok", "work@5m-7m timeout startToClose", "work@7m1s-8m1s ok")
		}, func(s *stage) { s.slots = 1 })
}

// temporalStartToCloseInFlow checks that the limit is per attempt, is retried, and its timer starts again; without one
// it is schedule-to-close.
func temporalStartToCloseInFlow(t *testing.T) {
	c := temporalWork(t, "startToCloseTimeout: 10s, retryPolicy: {maximumAttempts: 3}", "")
	perform(t, c, map[string][]try{"work": {hangs, hangs, {run: 9 * time.Second}}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-10s timeout startToClose", "work@11s-21s timeout startToClose", "work@23s-32s ok")
	})
	perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		wantStep(t, r, "work", core.StepTimedOut, policy.ReasonAttemptsExhausted)
	})
	c = temporalWork(t, "scheduleToCloseTimeout: 30s", "")
	perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-30s timeout scheduleToClose")
	})
	// Longer than what bounds it, it is cut to that.
	c = temporalWork(t, "scheduleToCloseTimeout: 30s, startToCloseTimeout: 1h, scheduleToStartTimeout: 1h, "+
		"heartbeatTimeout: 1h", "")
	perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-30s timeout scheduleToClose")
	})
	c = temporalWork(t,
		`startToCloseTimeout: 10s, retryPolicy: {nonRetryableErrorTypes: ["TemporalTimeout:StartToClose"]}`, "")
	perform(t, c, map[string][]try{"work": {broken, hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error", "work@1s-11s timeout startToClose")
		wantStep(t, r, "work", core.StepTimedOut, policy.ReasonTimeoutNotRetryable)
	})
}

// temporalScheduleToCloseInFlow spans all attempts and is not retried; a step without either is refused.
func temporalScheduleToCloseInFlow(t *testing.T) {
	c := temporalWork(t, "scheduleToCloseTimeout: 30s, startToCloseTimeout: 20s", "")
	perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-20s timeout startToClose", "work@21s-30s timeout scheduleToClose")
		wantStep(t, r, "work", core.StepTimedOut, policy.ReasonTimeoutNotRetryable)
	})
	// If the retry would come too late, the step ends at once.
	c = temporalWork(t, "scheduleToCloseTimeout: 3s", "")
	perform(t, c, map[string][]try{"work": {broken}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error", "work@1s-1s error")
		wantStep(t, r, "work", core.StepTimedOut, policy.ReasonNoTimeLeft)
	})
	// Null removes an inherited value.
	refused(t, "steps:\n  - {name: work, temporal: {heartbeatTimeout: 5s}, exec: ./work}\n", "4:28",
		"startToCloseTimeout or scheduleToCloseTimeout must be given")
	refused(t, "defaults: {temporal: {startToCloseTimeout: 5s}}\nsteps:\n  - {name: work, temporal: "+
		"{startToCloseTimeout: null}, exec: ./work}\n", "5:28", "must be given")
}

// temporalHeartbeatInFlow checks that silence fails the attempt, which is retried; the next one reads the details of
// the last heartbeat.
func temporalHeartbeatInFlow(t *testing.T) {
	c := temporalWork(t, "startToCloseTimeout: 1h, heartbeatTimeout: 10s, retryPolicy: {maximumAttempts: 2}", "")
	script := map[string][]try{"work": {
		{hang: true, beats: []time.Duration{9 * time.Second, 18 * time.Second}},
		{run: 5 * time.Second},
	}}
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-28s timeout heartbeat", "work@29s-34s ok")
		if got := string(s.seen[len(s.seen)-1].Details); got != `"18s"` {
			t.Errorf("the second attempt reads %s, want the last heartbeat", got)
		}
	})
	c = temporalWork(t,
		`startToCloseTimeout: 1h, heartbeatTimeout: 10s,
    retryPolicy: {nonRetryableErrorTypes: ["TemporalTimeout:Heartbeat"]}`, "")
	perform(t, c, script, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-28s timeout heartbeat")
		wantStep(t, r, "work", core.StepTimedOut, policy.ReasonTimeoutNotRetryable)
	})
	c = temporalWork(t, "startToCloseTimeout: 5s, heartbeatTimeout: 1h, retryPolicy: {maximumAttempts: 1}", "")
	perform(t, c, script, nil, func(s *stage, r *core.Run) { s.wantAttempts("work@0ms-5s timeout startToClose") })
}

// temporalDefaultsInFlow checks that the default delay is 1s, doubled up to 100s, without end, whatever the failure.
func temporalDefaultsInFlow(t *testing.T) {
	c := temporalWork(t, "startToCloseTimeout: 10s", "")
	tries := slices.Repeat([]try{broken, failed, {kind: policy.KindTimeout}}, 3)
	perform(t, c, map[string][]try{"work": append(tries, ok)}, nil, func(s *stage, r *core.Run) {
		wantPhase(t, r, core.RunSucceeded)
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 127, 227, 327}
		for i := range want {
			want[i] *= time.Second
		}
		if got := s.starts("work"); !slices.Equal(got, want) {
			t.Errorf("attempts at %v, want %v", got, want)
		}
	})
	// A hundred times the initial interval, where that is another one; a field of zero is its default.
	c = temporalWork(t, "startToCloseTimeout: 10s, retryPolicy: {initialInterval: 0.01s, backoffCoefficient: 0, "+
		"maximumInterval: 0, maximumAttempts: 0}", "")
	perform(t, c, map[string][]try{"work": append(slices.Repeat([]try{broken}, 9), ok)}, nil,
		func(s *stage, r *core.Run) {
			if starts := s.starts("work"); len(starts) != 10 || starts[9]-starts[8] != time.Second {
				t.Errorf("attempts at %v; want ten, with a ninth delay of a hundred times the first one", starts)
			}
		})
}

// temporalCoefficientInFlow checks that 1.0 is constant; 0 attempts are unlimited, 1 is no retry, what is negative is
// refused by name.
func temporalCoefficientInFlow(t *testing.T) {
	c := temporalWork(t, "startToCloseTimeout: 10s, retryPolicy: {backoffCoefficient: 1.0, initialInterval: 3s, "+
		"maximumAttempts: 4}", "")
	perform(t, c, map[string][]try{"work": {broken}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error", "work@3s-3s error", "work@6s-6s error", "work@9s-9s error")
		wantStep(t, r, "work", core.StepFailed, policy.ReasonAttemptsExhausted)
	})
	c = temporalWork(t, "startToCloseTimeout: 10s, retryPolicy: {backoffCoefficient: 1.0, maximumAttempts: 0}", "")
	perform(t, c, map[string][]try{"work": append(slices.Repeat([]try{broken}, 50), ok)}, nil,
		func(s *stage, r *core.Run) {
			if got := len(s.attempts()); got != 51 || r.Phase != core.RunSucceeded {
				t.Errorf("%d attempts, %s", got, r.Phase)
			}
		})
	// The rest of the policy is ignored if there is only one attempt.
	c = temporalWork(t, "startToCloseTimeout: 10s, retryPolicy: {maximumAttempts: 1, backoffCoefficient: 0.1, "+
		"maximumInterval: 1ms}", "")
	perform(t, c, map[string][]try{"work": {broken}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error")
		wantStep(t, r, "work", core.StepFailed, policy.ReasonRetriesOff)
	})
	for field, want := range map[string]string{
		"maximumAttempts: -1":     "maximumAttempts: -1 is below 0",
		"initialInterval: -1s":    "initialInterval: -1s is negative",
		"maximumInterval: -1s":    "maximumInterval: -1s is negative",
		"backoffCoefficient: 0.5": "backoffCoefficient: 0.5 is below 1",
		"maximumInterval: 1ms":    "maximumInterval: 1ms is below the initialInterval of 1s",
	} {
		name, _, _ := strings.Cut(field, ":")
		place := fmt.Sprintf("6:%d", len("      retryPolicy: {")+len(name)+3)
		refused(t,
			"steps:\n  - name: work\n    temporal: {startToCloseTimeout: 5s,\n      retryPolicy: {"+field+"}}\n"+
				"    exec: ./work\n", place, want)
	}
}

// temporalNonRetryableInFlow checks that listed types stop at once.
func temporalNonRetryableInFlow(t *testing.T) {
	c := temporalWork(t, "startToCloseTimeout: 10s, retryPolicy: {nonRetryableErrorTypes: [InvalidCard, Fraud]}", "")
	fraud := try{kind: policy.KindError, typ: "Fraud"}
	perform(t, c, map[string][]try{"work": {{kind: policy.KindFailed, typ: "Busy"}, fraud}}, nil,
		func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-0ms failed", "work@1s-1s error")
			wantStep(t, r, "work", core.StepFailed, policy.ReasonNonRetryable)
		})
}

// temporalRunRetryInFlow checks that runs are not retried by default, and are where a policy says so, with the defaults
// of one.
func temporalRunRetryInFlow(t *testing.T) {
	c := temporalWork(t, once+"startToCloseTimeout: 10s", "")
	perform(t, c, map[string][]try{"work": {broken}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error")
		wantPhase(t, r, core.RunFailed)
	})
	c = temporalWork(t, once+"startToCloseTimeout: 10s", "retryPolicy: {}")
	script := map[string][]try{"work": {broken}}
	perform(t, c, script, func(s *stage) {
		s.pass(10 * time.Second)
		s.change(nil)
	}, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error", "work@1s-1s error", "work@3s-3s error",
			"work@7s-7s error", "work@15s-15s ok")
	})
	c = temporalWork(t, once+"startToCloseTimeout: 10s", "retryPolicy: {nonRetryableErrorTypes: [Fraud]}")
	perform(t, c, map[string][]try{"work": {{kind: policy.KindError, typ: "Fraud"}}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error")
	})
}

// temporalCronInFlow checks that the run timeout is per run, the execution timeout over the chain, from its first
// firing on; a retry policy comes first.
func temporalCronInFlow(t *testing.T) {
	c := temporalWork(t, "startToCloseTimeout: 1d",
		`cronSchedule: "*/10 * * * *", workflowRunTimeout: 7m, workflowExecutionTimeout: 25m`)
	perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@10m-17m timeout run", "work@20m-27m timeout run", "work@30m-35m timeout execution")
		wantPhase(t, r, core.RunTimedOut)
		s.lasts(35 * time.Minute)
	})
	// A run that takes longer than the time to the next firing skips that firing.
	c = temporalWork(t, "startToCloseTimeout: 1d", `cronSchedule: "*/10 * * * *", workflowExecutionTimeout: 50m`)
	perform(t, c, map[string][]try{"work": {{run: 12 * time.Minute}}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@10m-22m ok", "work@30m-42m ok", "work@50m-1h timeout execution")
	})
	// The next firing counts from the run's begin, not from its end.
	c = temporalWork(t, "startToCloseTimeout: 1d", `cronSchedule: "@every 10m", workflowExecutionTimeout: 15m`)
	perform(t, c, map[string][]try{"work": {{run: 4 * time.Minute}}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@10m-14m ok", "work@20m-24m ok")
	})
	// No run follows that would begin at the end of the execution's time or later: the chain ends with the last run.
	for _, end := range []string{"15m", "20m"} {
		c = temporalWork(t, "startToCloseTimeout: 1d", `cronSchedule: "*/10 * * * *", workflowExecutionTimeout: `+end)
		perform(t, c, map[string][]try{"work": {{run: 4 * time.Minute}}}, nil, func(s *stage, r *core.Run) {
			s.wantAttempts("work@10m-14m ok", "work@20m-24m ok")
			s.lasts(24 * time.Minute)
		})
	}
	c = temporalWork(t, once+"startToCloseTimeout: 1d",
		`cronSchedule: "@every 10m", workflowExecutionTimeout: 15m, retryPolicy: {maximumAttempts: 2}`)
	perform(t, c, map[string][]try{"work": {{kind: policy.KindError}}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@10m-10m error", "work@10m1s-10m1s error",
			"work@20m1s-20m1s error", "work@20m2s-20m2s error")
	})
	// A cancel ends the chain, also between its runs, and after a restart of the engine.
	c = temporalWork(t, "startToCloseTimeout: 1d", `cronSchedule: "CRON_TZ=Asia/Tokyo 0 12 * * *"`)
	perform(t, c, nil, func(s *stage) {
		s.pass(28 * time.Hour)
		s.close()
		s.open(nil)
		s.pass(24 * time.Hour)
		page, err := s.engine.List(s.t.Context(), journal.Query{Limit: 1})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Phase != core.RunPending {
			s.t.Fatalf("%+v, %v", page.Runs, err)
		}
		if err := s.engine.Operate(s.t.Context(), page.Runs[0].ID,
			core.Operation{Op: core.OpCancel, Step: core.NoStep, Actor: "test"}); err != nil {
			s.t.Fatal(err)
		}
	}, func(s *stage, r *core.Run) {
		s.wantAttempts("work@3h-3h ok", "work@1d3h-1d3h ok", "work@2d3h-2d3h ok")
		s.lasts(52 * time.Hour)
	})
	refused(t, "temporal: {cronSchedule: \"@daily\", startDelay: 5m}\nsteps:\n  - {name: work, noop: {}}\n", "3:48",
		"a workflow with a cronSchedule has no start delay")
	// A delay lets the execution's limit run, and not the run's.
	c = temporalWork(t, "startToCloseTimeout: 1d",
		`startDelay: 10m, workflowRunTimeout: 5m, workflowExecutionTimeout: 1h`)
	perform(t, c, map[string][]try{"work": {hangs}}, nil,
		func(s *stage, r *core.Run) { s.wantAttempts("work@10m-15m timeout run") })
}
