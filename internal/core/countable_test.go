package core

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// TestBeyondCounting checks that a policy whose delays grow without a bound is simulated up to the last attempt whose
// instant can be told, and that the next one is named.
func TestBeyondCounting(t *testing.T) {
	retry := policy.Retry{MaxAttempts: 20, InitialInterval: time.Minute, BackoffCoefficient: 10}
	out, err := Simulate(Scenario{Policy: policy.Policy{Retry: &retry}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out.Attempts); n != 10 || out.Beyond != 11 || out.Phase != StepBackingOff {
		t.Errorf("%d attempts, the one beyond is %d, the step is %s", n, out.Beyond, out.Phase)
	}
	if last := out.Attempts[9].At; last != out.At || last > countable {
		t.Errorf("the last attempt is at %s, the end at %s", last, out.At)
	}
	retry.MaxInterval = time.Hour
	out, err = Simulate(Scenario{Policy: policy.Policy{Retry: &retry}})
	if err != nil || len(out.Attempts) != 20 || out.Beyond != 0 {
		t.Errorf("with a bound: %d attempts, beyond %d, %v", len(out.Attempts), out.Beyond, err)
	}
}
