package sim

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestChecksFindMistakesOfRules gives the engine flows that say something else than the checks know about when a step
// begins, when a run ends and who is told of that, one at a time, and expects that they see it.
func TestChecksFindMistakesOfRules(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	for _, m := range []struct{ name, from, to string }{
		{"always waits for success", "trigger: always", "trigger: allSucceeded"},
		{"anyFailed begins always", "trigger: anyFailed", "trigger: always"},
		{"allFailed begins when any failed", "trigger: allFailed", "trigger: anyFailed"},
		{"anySucceeded begins always", "trigger: anySucceeded", "trigger: always"},
		{"failFast goes on after a failure", "failFast: true", "failFast: false"},
		{"nobody is told", "notify: {", "notify: {when: false, "},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			opt := Options{RewriteFlow: func(text string) string { return strings.ReplaceAll(text, m.from, m.to) }}
			expectViolation(t, opt, []Invariant{Ruled})
		})
	}
}
