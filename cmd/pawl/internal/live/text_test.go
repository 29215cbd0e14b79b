package live

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestHeldUntil checks that the instant until which something is held at least is shown as long as it lies in the
// future.
func TestHeldUntil(t *testing.T) {
	d := drawing{now: api.Time(epoch)}
	for after, shown := range map[time.Duration]bool{-time.Second: false, 0: false, time.Minute: true} {
		h := &api.Held{Why: "held by queue bills", Until: api.Time(epoch.Add(after))}
		text := d.held(h)
		if !strings.HasPrefix(text, h.Why) || strings.Contains(text, ", until "+Local(h.Until)) != shown {
			t.Errorf("held until %s after now: %q", after, text)
		}
	}
	if text := d.held(&api.Held{Why: "held by queue bills"}); text != "held by queue bills" {
		t.Errorf("held until something ends: %q", text)
	}
}

// TestAttempts checks that lost attempts, which use up none of the policy's, are told apart.
func TestAttempts(t *testing.T) {
	s := &api.Step{Attempts: []api.Attempt{{Outcome: "lost"}, {Outcome: "error"}, {Outcome: "succeeded"}}}
	if have := Attempts(len(s.Attempts), LostOf(s)); have != "3 attempts (1 lost)" {
		t.Error(have)
	}
	if have := Attempts(1, 0); have != "1 attempt" {
		t.Error(have)
	}
}
