package sim

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestChecksFindMistakesOfRetries does the same to what a retry makes of labels and events.
func TestChecksFindMistakesOfRetries(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	for _, m := range []struct {
		name string
		opt  Options
		see  []Invariant
	}{
		{"labels of what is dropped stay", changeEntries(func(e *core.Entry) {
			for i, rec := range e.Records {
				if reopened, ok := rec.(core.RunReopened); ok {
					reopened.Labels = ""
					e.Records[i] = reopened
				}
			}
		}), []Invariant{Recorded}},
		{"events of dropped waits are lost", changeEntries(func(e *core.Entry) {
			e.Records = slices.DeleteFunc(e.Records, func(rec core.Record) bool {
				kept, ok := rec.(core.SignalKept)
				return ok && kept.Back
			})
		}), []Invariant{Events}},
	} {
		m.opt.Partitions = 1 // where bodies are many
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, m.opt, m.see)
		})
	}
}
