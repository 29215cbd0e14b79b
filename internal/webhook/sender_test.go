package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// TestRetryAfter checks that the delay that the receiver asks for is followed, also beyond the policy's longest delay.
// One of more than a day does not count: the message would be given up after one attempt.
func TestRetryAfter(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops")
		b.answers(func(*request) (*http.Response, error) { return respond(503, "busy", "Retry-After", "7200"), nil })
		b.start(failing)
		first := b.all()[0]
		b.answers(func(*request) (*http.Response, error) { return respond(503, "busy", "Retry-After", "604800"), nil })
		pass(3 * time.Hour)
		second := b.all()
		if len(second) < 2 || second[0].at.Sub(first.at) != 2*time.Hour || second[1].at.Sub(second[0].at) > time.Hour {
			t.Fatalf("%d requests, the second one after %s", len(second), second[0].at.Sub(first.at))
		}
		d := b.deliveries("ops", api.DeliveryPending)
		if len(d) != 1 || strings.Contains(d[0].Why, "Retry-After") {
			t.Fatalf("a week was asked for: %+v", d)
		}
		shown := b.delivery("ops", d[0].ID)
		if len(shown.Attempts) < 2 || shown.Attempts[0].Response != "busy" ||
			shown.Attempts[0].NextAt != shown.Attempts[1].At {
			t.Errorf("attempts: %+v", shown.Attempts)
		}
	})
}

// TestRetryAfterNothing checks that a receiver that fails and names no delay is left the policy's.
func TestRetryAfterNothing(t *testing.T) {
	for _, after := range []string{"0", "Thu, 01 Jan 1970 00:00:00 GMT"} {
		run(t, func(t *testing.T, b *bed) {
			defer b.close()
			b.add("ops")
			n := 0
			b.answers(func(*request) (*http.Response, error) {
				if n++; n == 100 {
					return status204(), nil // else the clock of the test would stand still
				}
				return respond(429, "", "Retry-After", after), nil
			})
			b.start(failing)
			pass(time.Minute)
			if got := len(b.all()); got < 3 || got > 6 {
				t.Errorf("%s: %d requests within a minute", after, got)
			}
		})
	}
}

// TestSweep checks that deliveries that have ended are deleted after a week.
func TestSweep(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops")
		b.start(failing)
		pass(6 * 24 * time.Hour)
		if n := len(b.deliveries("ops", "")); n != 1 {
			t.Errorf("%d deliveries after six days", n)
		}
		pass(26 * time.Hour)
		if n := len(b.deliveries("ops", "")); n != 0 {
			t.Errorf("%d deliveries after a week", n)
		}
	})
}

// TestSweepKeepsWhatFailedLate checks that a delivery that was given up long after its event can be replayed for a week
// from then.
func TestSweepKeepsWhatFailedLate(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		const day = 24 * time.Hour
		b.add("ops", func(r *api.WebhookRequest) {
			r.Policy = &policy.Policy{Limits: policy.Limits{ScheduleToClose: &policy.Limit{After: 8 * day}}}
		})
		b.answers(always(500))
		b.start(failing)
		pass(14 * day)
		if n := len(b.deliveries("ops", api.DeliveryFailed)); n != 1 {
			t.Errorf("%d deliveries six days after it was given up", n)
		}
		pass(26 * time.Hour)
		if n := len(b.deliveries("ops", "")); n != 0 {
			t.Errorf("%d deliveries a week after it was given up", n)
		}
	})
}
