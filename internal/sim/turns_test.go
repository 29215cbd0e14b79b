package sim

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/policy"
)

// TestTurnsOfKeys runs universes in which many runs wait for the turns of their keys, and some leave the queue without
// having begun.
func TestTurnsOfKeys(t *testing.T) {
	for seed := uint64(1); seed <= uint64(nightly.Few(6, 30)); seed++ {
		opt := Options{
			Runs: 60, NoFaults: seed%2 == 0, RunQueues: map[string]policy.QueueLimits{turns: runQueueLimits[turns]},
		}
		if _, err := Run(seed, opt); err != nil {
			t.Fatal(err)
		}
	}
}
