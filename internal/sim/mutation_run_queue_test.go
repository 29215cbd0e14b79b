package sim

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/policy"
)

// TestChecksFindMistakesOfRunQueues gives the engine other limits than the checks know, one at a time, and expects that
// they see it.
func TestChecksFindMistakesOfRunQueues(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	for _, m := range []struct {
		name, queue string
		change      func(l *policy.QueueLimits)
		sees        Invariant
	}{
		{"one more place", "desk", func(l *policy.QueueLimits) { l.Concurrency++ }, Limited},
		{"one place less", "desk", func(l *policy.QueueLimits) { l.Concurrency-- }, NoHang},
		{"one more of a key", "night", func(l *policy.QueueLimits) { l.PerKey++ }, Limited},
		{"one more in a window", "post", func(l *policy.QueueLimits) { l.Rate.N++ }, Limited},
		{"one more of a key in a window", "post", func(l *policy.QueueLimits) { l.KeyRate.N++ }, Limited},
		{"a window that ends early", "post", func(l *policy.QueueLimits) { l.Rate.Per -= time.Second }, Limited},
		{"no turns of keys", turns, func(l *policy.QueueLimits) { l.Fair = false }, Limited},
		{"turns of keys where the oldest goes first", "desk", func(l *policy.QueueLimits) { l.Fair = true }, Limited},
	} {
		t.Run(m.name, func(t *testing.T) {
			l := runQueueLimits[m.queue]
			m.change(&l)
			opt := Options{Runs: 25, RunQueues: map[string]policy.QueueLimits{m.queue: l}}
			if l.Fair != runQueueLimits[m.queue].Fair {
				opt.Runs, opt.NoFaults = 60, true // many wait, and nothing lets the turns begin anew
			}
			expectViolation(t, opt, []Invariant{m.sees})
		})
	}
}
