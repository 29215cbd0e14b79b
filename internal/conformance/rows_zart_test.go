package conformance

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	addFlow("Z1", zartDeadlineInFlow)
	addFlow("Z2", zartExecutionInFlow)
	addFlow("Z3", zartDurationsInFlow)
	addFlow("Z4", zartGlobalInFlow)
	addFlow("Z5", zartPerAttemptInFlow)
	addFlow("Z6", zartTerminalInFlow)
	addFlow("Z7", zartTooLateInFlow)
	addFlow("Z8", zartExhaustedInFlow)
	addFlow("Z9", zartHierarchyInFlow)
	addFlow("Z11", zartEventInFlow)
	addFlow("Z15", zartFixedInFlow)
}

// zartWork makes a flow of one step called work, with attributes of its own and of the handler.
func zartWork(t *testing.T, step, handler string) *dialect.Conversion {
	t.Helper()
	return formed(t, "zart: {"+handler+"}\nsteps:\n  - {name: work, zart: {"+step+"}, exec: ./work}\n")
}

// zartDeadlineInFlow checks that the deadline is the first scheduling and the duration, is stored, and is the same for
// every attempt, also after restarts.
func zartDeadlineInFlow(t *testing.T) {
	c := zartWork(t, `timeout: 1h, retry: "fixed(4, 10m)"`, "")
	script := map[string][]try{"work": {broken, broken, broken, hangs}}
	perform(t, c, script, func(s *stage) {
		for _, after := range []time.Duration{5 * time.Minute, 7 * time.Minute, 20 * time.Minute} {
			s.pass(after)
			step, _ := s.run().Lookup("work")
			if got := step.ScheduleToClose.Std().Sub(s.began); got != time.Hour {
				s.t.Errorf("the deadline is %s after the start", got)
			}
			s.close()
			s.open(nil)
		}
	}, func(s *stage, r *core.Run) {
		// The attempt of the last restart, from 30m on, was lost and made again; its deadline is the same.
		s.wantAttempts("work@0ms-0ms error", "work@10m-10m error", "work@20m-20m error",
			"work@32m-1h timeout scheduleToClose")
		wantStep(t, r, "work", core.StepTimedOut, policy.ReasonTimeoutNotRetryable)
	})
	// The wait for a worker counts.
	c = formed(t, "steps: [{name: blocker, exec: ./block}, {name: work, zart: {timeout: 1h}, exec: ./work}]\n")
	perform(t, c, map[string][]try{"blocker": {{run: 20 * time.Minute}}, "work": {hangs}}, nil,
		func(s *stage, r *core.Run) {
			s.wantAttempts("blocker@0ms-20m ok", "work@20m-1h timeout scheduleToClose")
		}, func(s *stage) { s.slots = 1 })
}

// zartExecutionInFlow checks that whatever the run does, its deadline ends it. The failure handler runs once, before
// the run's end is recorded.
func zartExecutionInFlow(t *testing.T) {
	for _, step := range []string{
		"sleep: 365d", "wait: {event: never}", "exec: ./work",
		`zart: {timeout: 2h}, exec: ./work`,
	} {
		c := formed(t, "zart: {timeout: 30m}\nsteps: [{name: work, "+step+"}]\nhooks: {onFailure: {exec: ./refund}}\n")
		perform(t, c, map[string][]try{"work": {hangs}, "onFailure": {{run: time.Second}}}, nil,
			func(s *stage, r *core.Run) {
				if got := s.starts("onFailure"); len(got) != 1 || got[0] != 30*time.Minute {
					t.Errorf("%s: the handler ran at %v", step, got)
				}
				wantPhase(t, r, core.RunTimedOut)
				s.lasts(30*time.Minute + time.Second)
			})
	}
}

func zartDurationsInFlow(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "2h": 2 * time.Hour,
		"3d": 72 * time.Hour, "5m": 5 * time.Minute,
	} {
		perform(t, zartWork(t, "timeout: "+text, ""), map[string][]try{"work": {hangs}}, nil,
			func(s *stage, r *core.Run) { s.lasts(want) })
	}
	for _, text := range []string{"5w", "1h30m", "250ms", "1.5h", "-5s", `"5"`} {
		refused(t, "steps:\n  - {name: work, zart: {timeout: "+text+"}, exec: ./work}\n", "4:34",
			"write a number and s, m, h or d, as in 30s")
	}
	// It waits for ever if there is no timeout.
	perform(t, zartWork(t, "", ""), map[string][]try{"work": {{run: 900 * time.Hour}}}, nil,
		func(s *stage, r *core.Run) { wantPhase(t, r, core.RunSucceeded) })
}

// zartGlobalInFlow checks that there is one window for all attempts: the second attempt has the rest.
func zartGlobalInFlow(t *testing.T) {
	for _, scope := range []string{"", ", timeout_scope: global"} {
		c := zartWork(t, `timeout: 5m, retry: "fixed(3, 1s)"`+scope, "")
		perform(t, c, map[string][]try{"work": {{run: 30 * time.Second, kind: policy.KindError}, hangs}}, nil,
			func(s *stage, r *core.Run) {
				s.wantAttempts("work@0ms-30s error", "work@31s-5m timeout scheduleToClose")
			})
	}
}

// zartPerAttemptInFlow checks that each attempt has a fresh countdown, capped by the execution's deadline.
func zartPerAttemptInFlow(t *testing.T) {
	late := try{run: 29 * time.Second, kind: policy.KindError}
	c := zartWork(t, `timeout: 30s, timeout_scope: per_attempt, retry: "fixed(3, 1s)"`, "")
	perform(t, c, map[string][]try{"work": {late, late, hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-29s error", "work@30s-59s error", "work@1m-1m30s timeout startToClose")
		if step, _ := r.Lookup("work"); step.ScheduleToClose != 0 || step.Deadline != 0 {
			t.Errorf("a deadline was stored")
		}
	})
	c = zartWork(t, `timeout: 30s, timeout_scope: per_attempt, retry: "fixed(3, 1s)"`, "timeout: 70s")
	perform(t, c, map[string][]try{"work": {late, late, hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-29s error", "work@30s-59s error", "work@1m-1m10s timeout execution")
	})
}

// zartTerminalInFlow checks that a timeout is not retried in both scopes, and that an error of any kind is.
func zartTerminalInFlow(t *testing.T) {
	for _, scope := range []string{"global", "per_attempt"} {
		c := zartWork(t, `timeout: 30s, retry: "fixed(3, 1s)", timeout_scope: `+scope, "")
		perform(t, c, map[string][]try{"work": {hangs, ok}}, nil, func(s *stage, r *core.Run) {
			if got := s.starts("work"); len(got) != 1 {
				t.Errorf("%s: attempts at %v", scope, got)
			}
			wantStep(t, r, "work", core.StepTimedOut, policy.ReasonTimeoutNotRetryable)
		})
		perform(t, c, map[string][]try{"work": {failed, broken, ok}}, nil,
			func(s *stage, r *core.Run) { wantPhase(t, r, core.RunSucceeded) })
	}
}

// zartTooLateInFlow checks that a retry whose window has passed never runs, in a delay and in a queue.
func zartTooLateInFlow(t *testing.T) {
	c := zartWork(t, `timeout: 10s, retry: "fixed(3, 5s)"`, "")
	perform(t, c, map[string][]try{"work": {{run: 6 * time.Second, kind: policy.KindError}}}, nil,
		func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-6s error")
			wantStep(t, r, "work", core.StepTimedOut, policy.ReasonNoTimeLeft)
		})
	c = formed(t, `
steps:
  - {name: work, zart: {timeout: 10s, retry: "fixed(3, 2s)"}, exec: ./work}
  - {name: blocker, exec: ./block}
`)
	one := func(s *stage) { s.slots = 1 }
	perform(t, c, map[string][]try{
		"work":    {{run: time.Second, kind: policy.KindError}},
		"blocker": {{run: time.Minute}},
	}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-1s error", "blocker@1s-1m1s ok", "work@10s-10s timeout scheduleToClose")
		if n := len(s.seen); n != 2 {
			t.Errorf("%d attempts were executed, want 2", n)
		}
	}, one)
}

// zartExhaustedInFlow checks that an attempt that is lost uses up none of the retries, which keep the deadline; after
// the last of them the flow goes on.
func zartExhaustedInFlow(t *testing.T) {
	c := formed(t, `
steps:
  - {name: work, zart: {timeout: 1h, retry: "fixed(3, 1m)"}, exec: ./work, continueOn: [error]}
  - {name: after, needs: [work], exec: ./after}
`)
	perform(t, c, map[string][]try{"work": {{run: 20 * time.Second, kind: policy.KindError}}}, func(s *stage) {
		s.pass(10 * time.Second)
		s.close()
		s.open(nil)
	}, func(s *stage, r *core.Run) {
		s.wantAttempts("work@10s-30s error", "work@1m30s-1m50s error", "work@2m50s-3m10s error", "after@3m10s-3m10s ok")
		wantStep(t, r, "work", core.StepFailed, policy.ReasonAttemptsExhausted)
		if step, _ := r.Lookup("work"); step.ScheduleToClose.Std().Sub(s.began) != time.Hour {
			t.Errorf("the deadline moved to %s", step.ScheduleToClose)
		}
	})
}

// zartHierarchyInFlow checks that a step without a timeout is bounded by the execution's deadline, one with a later one
// as well.
func zartHierarchyInFlow(t *testing.T) {
	for step, want := range map[string]string{
		"": "work@0ms-30m timeout execution", "timeout: 5m": "work@0ms-5m timeout scheduleToClose",
		"timeout: 2h": "work@0ms-30m timeout execution",
	} {
		perform(t, zartWork(t, step, "timeout: 30m"), map[string][]try{"work": {hangs}}, nil,
			func(s *stage, r *core.Run) { s.wantAttempts(want) })
	}
}

// zartEventInFlow checks that a wait with a timeout ends with DeadlineExceeded, which the flow may go on after;
// without, it waits on.
func zartEventInFlow(t *testing.T) {
	c := formed(t, `
steps:
  - {name: approval, zart: {timeout: 7d}, wait: {event: approved}, continueOn: [timeout]}
  - {name: after, needs: [approval], exec: ./after}
`)
	perform(t, c, nil, nil, func(s *stage, r *core.Run) {
		step, _ := r.Lookup("approval")
		if step.Failure == nil || step.Failure.Type != "deadline_exceeded" {
			t.Errorf("the wait ended with %+v", step.Failure)
		}
		s.wantAttempts("after@7d-7d ok")
	})
	perform(t, c, nil, func(s *stage) {
		s.pass(24 * time.Hour)
		s.send("approved", `{"by": "ada"}`)
	}, func(s *stage, r *core.Run) { s.wantAttempts("after@1d-1d ok") })
}

func zartFixedInFlow(t *testing.T) {
	perform(t, zartWork(t, `retry: "fixed(3, 1s)"`, ""), map[string][]try{"work": {broken}}, nil,
		func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-0ms error", "work@1s-1s error", "work@2s-2s error")
			wantStep(t, r, "work", core.StepFailed, policy.ReasonAttemptsExhausted)
		})
	perform(t, zartWork(t, `retry: "exponential(4, 2s)"`, ""), map[string][]try{"work": {broken}}, nil,
		func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-0ms error", "work@2s-2s error", "work@6s-6s error", "work@14s-14s error")
		})
}
