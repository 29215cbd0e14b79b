package sim

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/policy"
)

// TestLimitChecksBite gives the engine other limits than the flows have, one at a time, and expects that the checks
// see it.
func TestLimitChecksBite(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	for _, m := range []struct {
		name, service string
		change        func(l *policy.QueueLimits)
	}{
		{"one more at once", "mail", func(l *policy.QueueLimits) { l.Concurrency++ }},
		{"one more of a key", "fax", func(l *policy.QueueLimits) { l.PerKey++ }},
		{"one more in a window", "bank", func(l *policy.QueueLimits) { l.Rate.N++; l.KeyRate = policy.Rate{} }},
		{"one more of a key in a window", "bank", func(l *policy.QueueLimits) { l.KeyRate.N++ }},
		{"a window that ends early", "bank", func(l *policy.QueueLimits) { l.KeyRate.Per -= time.Second }},
		{"one more retry", "shop", func(l *policy.QueueLimits) { l.Retries.N++ }},
		{"a breaker that opens late", "shop", func(l *policy.QueueLimits) { l.Breaker.Failures++ }},
		{"a probe that goes early", "shop", func(l *policy.QueueLimits) { l.Breaker.Pause -= time.Millisecond }},
		{"a pause that does not double", "shop", func(l *policy.QueueLimits) { l.Breaker.MaxPause = l.Breaker.Pause }},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := serviceLimits[m.service]
			m.change(&l)
			opt := Options{Runs: 60, Services: map[string]policy.QueueLimits{m.service: l}}
			expectViolation(t, opt, []Invariant{Limited})
		})
	}
}
