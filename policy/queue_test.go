package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// TestQueueLimitsRoundTrip checks that limits that are written are read as the same ones.
func TestQueueLimitsRoundTrip(t *testing.T) {
	for _, l := range []policy.QueueLimits{
		{},
		{Concurrency: 4, PerKey: 1, Fair: true},
		{Rate: policy.Rate{N: 10, Per: time.Second}, KeyRate: policy.Rate{N: 5, Per: 90 * time.Second}},
		{
			Retries: policy.Rate{N: 20, Per: time.Minute},
			Breaker: policy.Breaker{Failures: 5, Of: 20, Pause: 30 * time.Second, MaxPause: 10 * time.Minute},
		},
	} {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		got, err := policy.DecodeQueueLimits(fields)
		if err != nil || *got != l {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if l, err := policy.DecodeQueueLimits(map[string]any{"rate": "5/s"}); err != nil ||
		l.Rate != (policy.Rate{N: 5, Per: time.Second}) {
		t.Errorf("5/s: %+v, %v", l, err)
	}
}

// TestBreakerPauses checks that pauses double, and that the longest one is the bound, for any number of probes.
func TestBreakerPauses(t *testing.T) {
	for _, c := range []struct {
		b      policy.Breaker
		probes int
		want   time.Duration
	}{
		{policy.Breaker{Failures: 1}, 0, 10 * time.Second},
		{policy.Breaker{Failures: 1}, 2, 40 * time.Second},
		{policy.Breaker{Failures: 1}, 1 << 40, 5 * time.Minute},
		{policy.Breaker{Failures: 1, Pause: time.Hour}, 3, time.Hour},
		{policy.Breaker{Failures: 1, Pause: time.Second, MaxPause: 3 * time.Second}, 5, 3 * time.Second},
	} {
		if got := c.b.PauseAfter(c.probes); got != c.want {
			t.Errorf("%+v after %d probes: %s, want %s", c.b, c.probes, got, c.want)
		}
	}
}

// TestLimitsOfAKey checks that a key is not promised more attempts than all keys have.
func TestLimitsOfAKey(t *testing.T) {
	for l, fits := range map[policy.QueueLimits]bool{
		{Concurrency: 1, PerKey: 5}: false, {Concurrency: 5, PerKey: 5}: true, {PerKey: 5}: true,
	} {
		if err := l.Check(); (err == nil) != fits {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
