package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/policy"
)

// TestChecksFindMistakesOfSharing gives the partitions of a process more than they share, and expects that the checks
// see it.
func TestChecksFindMistakesOfSharing(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	for _, m := range []struct {
		name, service string
		change        func(l *policy.QueueLimits)
	}{
		{"one more at once", "mail", func(l *policy.QueueLimits) { l.Concurrency++ }},
		{"one more of a key in a window", "bank", func(l *policy.QueueLimits) { l.KeyRate.N++ }},
		{"a probe that goes early", "shop", func(l *policy.QueueLimits) { l.Breaker.Pause -= time.Millisecond }},
	} {
		t.Run(m.name, func(t *testing.T) {
			l := serviceLimits[m.service]
			m.change(&l)
			opt := Options{
				Runs: 60, Partitions: 3, Share: true, Services: map[string]policy.QueueLimits{m.service: l},
			}
			expectViolation(t, opt, []Invariant{Limited})
		})
	}
	t.Run("one more place of a queue of runs", func(t *testing.T) {
		l := runQueueLimits["desk"]
		l.Concurrency++
		opt := Options{Runs: 25, Partitions: 3, Share: true, RunQueues: map[string]policy.QueueLimits{"desk": l}}
		expectViolation(t, opt, []Invariant{Limited})
	})
	t.Run("limits and slots of each partition's own", func(t *testing.T) {
		opt := Options{Runs: 60, Partitions: 2, Share: true, OwnMatchers: true}
		for _, see := range []Invariant{Limited, Slots} {
			expectAmong(t, opt, see, Limited, Slots)
		}
	})
}

// expectAmong expects that the checks see a mistake in some universe by one invariant. In others they may see it by
// these.
func expectAmong(t *testing.T, opt Options, see Invariant, or ...Invariant) {
	t.Helper()
	for seed := uint64(1); seed <= 600; seed++ {
		var v *Violation
		_, err := Run(seed, opt)
		switch {
		case !errors.As(err, &v):
		case v.Invariant == see:
			return
		case !slices.Contains(or, v.Invariant):
			t.Fatalf("seed %d broke another invariant: %v", seed, err)
		}
	}
	t.Errorf("no universe of 600 breaks the invariant %s", see)
}

// TestChecksFindMistakesOfResting lets engines carry on what rests in their process.
func TestChecksFindMistakesOfResting(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	expectViolation(t, Options{Rest: true, CarryAll: true}, []Invariant{Rested})
}
