package sim

import "testing"

// TestRemoteCheckBites makes engines that are opened later not know that remote workers can reach them, and expects
// that the checks see the attempts that are lost so.
func TestRemoteCheckBites(t *testing.T) {
	expectViolation(t, Options{LoseRemote: true}, []Invariant{OneAttempt, Recorded})
}
