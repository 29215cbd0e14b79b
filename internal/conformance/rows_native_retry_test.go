package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// jitterIsNoChance checks that each kind of jitter draws by the run, the step and the attempt, within its bounds, and
// no delay is longer than the cap.
func jitterIsNoChance(t *testing.T) {
	const first, most = 800 * time.Millisecond, 5 * time.Second
	share := func(d time.Duration, share float64) time.Duration {
		return time.Duration(float64(d) * share).Truncate(time.Millisecond)
	}
	uniform := func(j float64) func(n int, _ time.Duration, u float64) time.Duration {
		return func(n int, _ time.Duration, u float64) time.Duration {
			return share(min(first<<(n-1), most), 1-j+j*u)
		}
	}
	for jitter, delay := range map[string]func(n int, previous time.Duration, u float64) time.Duration{
		"0.25": uniform(0.25), "1": uniform(1),
		"decorrelated": func(_ int, previous time.Duration, u float64) time.Duration {
			return min(first+share(max(3*previous-first, 0), u), most)
		},
	} {
		var drawn []time.Duration
		for range 2 { // two runs: two draws
			settings := fmt.Sprintf("retry: exponential(8, 800ms, max=5s, jitter=%s)", jitter)
			playStep(t, settings, []try{broken}, func(n *native, _ *api.Run, s *api.Step) {
				previous := time.Duration(0)
				for i, a := range s.Attempts[:7] {
					got := a.NextAt.Sub(a.EndedAt)
					want := delay(i+1, previous, judge.Random(n.root, "work", i+1))
					if off := got - want; off < -time.Millisecond || off > time.Millisecond || got > most {
						t.Errorf("jitter %s: %s after attempt %d, want %s", jitter, got, i+1, want)
					}
					previous = got
					drawn = append(drawn, got)
				}
			})
		}
		slices.Sort(drawn)
		if len(slices.Compact(drawn)) < 5 {
			t.Errorf("jitter %s: the delays are all alike: %s", jitter, drawn)
		}
	}
}

// retryAfterIsHonoured checks that the delay that a worker asks for replaces that of the policy, also where it is
// beyond its cap; a delay of zero is not a request. One that ends at a deadline or later stops the step at once.
func retryAfterIsHonoured(t *testing.T) {
	later := func(d time.Duration) try {
		return try{kind: policy.KindError, msg: "busy", retryAfter: &d}
	}
	const capped = "retry: exponential(3, 1s, max=2s, jitter=0.5)"
	playStep(t, capped+"; timeout: 1m", []try{later(50 * time.Second), ok}, func(n *native, _ *api.Run, s *api.Step) {
		if s.Phase != api.StepSucceeded || n.since(s.Attempts[1].StartedAt) != 50*time.Second {
			t.Errorf("beyond the cap: %v", n.told(s))
		}
	})
	playStep(t, capped, []try{later(0), ok}, func(n *native, _ *api.Run, s *api.Step) {
		if s.Phase != api.StepSucceeded || n.since(s.Attempts[1].StartedAt) < 500*time.Millisecond {
			t.Errorf("zero: %v", n.told(s))
		}
	})
	for settings, place := range map[string]string{
		capped + "; timeout: 1m": "row.yaml:7:14", capped + "; timeout: {deadline: 1m}": "row.yaml:7:25",
	} {
		playStep(t, settings, []try{later(time.Minute)}, func(n *native, _ *api.Run, s *api.Step) {
			if s.Phase != api.StepTimedOut || s.Reason != "no_time_left" || n.since(s.EndedAt) != 0 ||
				!strings.Contains(s.Why, place) || !strings.Contains(s.Why, "busy") {
				t.Errorf("%s: %q, %v", settings, s.Why, n.told(s))
			}
		})
	}
}
