package sim

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestRemoteCheckBites makes engines that are opened later not know that remote workers can reach them, and expects
// that the checks see the attempts that are lost so.
func TestRemoteCheckBites(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	expectViolation(t, Options{LoseRemote: true}, []Invariant{OneAttempt, Recorded})
}

// TestRemotePromiseBites makes engines forget that a worker has promised to report, and expects that the checks see a
// task that was lost on its way when an engine died.
func TestRemotePromiseBites(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	expectViolation(t, Options{LosePromise: true}, []Invariant{Liveness, NoHang})
}

// TestNotBegunBites makes nobody say that a task has not arrived at its worker, and expects that the checks see it.
func TestNotBegunBites(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	expectViolation(t, Options{KeepNotBegun: true}, []Invariant{Liveness, NoHang})
}
