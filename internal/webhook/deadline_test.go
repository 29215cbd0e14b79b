package webhook

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// tried sets how often a delivery is tried, each hour, and for how long.
func tried(attempts int, within time.Duration) func(*api.WebhookRequest) {
	return func(r *api.WebhookRequest) {
		r.Policy = &policy.Policy{Retry: &policy.Retry{
			MaxAttempts: attempts, InitialInterval: time.Hour, BackoffCoefficient: 1,
		}}
		r.Policy.Set(policy.LimitScheduleToClose, &policy.Limit{After: within})
	}
}

// TestDeliveryHasOneDeadline checks that the time after which a delivery is given up counts from its first attempt, and
// none comes after it: not while the process runs, nor when it is started again only then.
func TestDeliveryHasOneDeadline(t *testing.T) {
	for name, stops := range map[string]bool{"runs on": false, "stopped meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bed) {
				b.add("ops", tried(100, 150*time.Minute))
				b.answers(always(500))
				b.start(failing)
				pass(70 * time.Minute)
				if got := len(b.all()); got != 2 {
					t.Errorf("%d attempts in the first 70 minutes", got)
				}
				if stops {
					durable := b.journal.Reopen()
					b.close()
					pass(24 * time.Hour)
					b = openBed(t, durable, b.receiver)
				}
				defer func() { b.close() }()
				pass(24 * time.Hour)
				want := 1
				if stops {
					want = 0
				}
				failed := b.deliveries("ops", api.DeliveryFailed)
				if got := len(b.all()); got != want || len(failed) != 1 {
					t.Fatalf("%d attempts later, %d deliveries have failed", got, len(failed))
				}
				if f := failed[0]; !stops && f.EndedAt.Sub(f.Since) != 2*time.Hour {
					t.Errorf("given up after %v", f.EndedAt.Sub(f.Since))
				}
			})
		})
	}
}

// TestReplayBeginsAnew checks that a delivery that is replayed has all its attempts again, and its whole time.
func TestReplayBeginsAnew(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops", tried(3, 3*24*time.Hour))
		b.answers(always(500))
		b.start(failing)
		pass(4 * 24 * time.Hour)
		id := b.deliveries("ops", api.DeliveryFailed)[0].ID
		if got := len(b.all()); got != 3 {
			t.Errorf("%d attempts at first", got)
		}
		if _, err := b.Replay(t.Context(), "ops", api.ReplayRequest{Delivery: id}); err != nil {
			t.Fatal(err)
		}
		pass(24 * time.Hour)
		if got := len(b.all()); got != 3 {
			t.Errorf("%d attempts after the replay", got)
		}
	})
}

// TestAttemptsThatAreKept checks that of a delivery that is tried very often the last hundred attempts are kept.
func TestAttemptsThatAreKept(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops", tried(120, 365*24*time.Hour))
		b.answers(always(500))
		b.start(failing)
		pass(130 * time.Hour)
		failed := b.deliveries("ops", api.DeliveryFailed)
		if len(failed) != 1 || len(b.all()) != 120 {
			t.Fatalf("%d deliveries have failed", len(failed))
		}
		if d := b.delivery("ops", failed[0].ID); len(d.Attempts) != 100 || d.Tried != 120 {
			t.Errorf("%d attempts are kept of %d", len(d.Attempts), d.Tried)
		}
	})
}

// TestReplayLeavesWhatIsPending checks that of two replays at once the later one changes nothing.
func TestReplayLeavesWhatIsPending(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops", tried(3, 24*time.Hour))
		b.answers(always(500))
		b.start(failing)
		before := b.deliveries("ops", api.DeliveryPending)[0]
		target, err := b.find("ops")
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if err := b.again(t.Context(), target, []string{before.ID}); err != nil {
			t.Fatal(err)
		}
		if d := b.delivery("ops", before.ID); d.Tried != 1 || d.Since != before.Since || d.NextAt != before.NextAt {
			t.Errorf("it was %+v and is %+v", before, d)
		}
	})
}
