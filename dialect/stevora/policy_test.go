package stevora

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dialect/internal/policytest"
	"github.com/pawl-dev/pawl/internal/judge"
)

func TestPolicy(t *testing.T) { policytest.Run(t, "testdata/policy", Policy) }

// TestDelays holds the delays to the source's table, and to its formula in every draw.
func TestDelays(t *testing.T) {
	p, err := Policy(map[string]any{"retry": map[string]any{"maxAttempts": 5}})
	if err != nil {
		t.Fatal(err)
	}
	run := [16]byte{1, 2, 3}
	for n, base := range map[int]time.Duration{1: 1000, 2: 2000, 3: 4000, 4: 8000} {
		least, most := base*time.Millisecond, time.Duration(0)
		for i := range 10_000 {
			run[15], run[14] = byte(i), byte(i>>8)
			d := p.Retry.Delay(n, 0, judge.Random(run, "call-external-api", n))
			least, most = min(least, d), max(most, d)
		}
		if least < base*750*time.Microsecond || most >= base*time.Millisecond {
			t.Errorf("after attempt %d: from %v to %v", n, least, most)
		}
		if spread := base * 250 * time.Microsecond; most-least < spread*9/10 {
			t.Errorf("after attempt %d only from %v to %v", n, least, most)
		}
	}
}
