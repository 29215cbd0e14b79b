package webhook

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// TestReplay checks that what failed is sent once more with its id, one or all; what has not ended is not.
func TestReplay(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer b.close()
		b.add("ops", func(r *api.WebhookRequest) {
			r.Policy = &policy.Policy{Retry: &policy.Retry{
				MaxAttempts: 2, InitialInterval: time.Minute, BackoffCoefficient: 1,
			}}
		})
		b.answers(always(500))
		b.start(failing)
		pending := b.deliveries("ops", "")[0].ID
		_, err := b.Replay(t.Context(), "ops", api.ReplayRequest{Delivery: pending})
		if api.CodeOf(err) != api.CodeConflict {
			t.Errorf("replay of a pending delivery: %v", err)
		}
		pass(2 * time.Minute)
		middle := api.At(time.Now())
		b.start(failing)
		pass(2 * time.Minute)
		failed := b.deliveries("ops", api.DeliveryFailed)
		if len(failed) != 2 || failed[1].Why != "given up after 2 attempts: its policy allows 2 attempts; the last "+
			"failure: error status (code 500): the receiver answered 500 Internal Server Error" {
			t.Fatalf("failed: %+v", failed)
		}
		b.all()
		b.answers(nil)
		replay := func(what string, r api.ReplayRequest) {
			t.Helper()
			if r, err := b.Replay(t.Context(), "ops", r); err != nil || r.Count != 1 {
				t.Errorf("replay of %s: %+v, %v", what, r, err)
			}
		}
		replay("the later one", api.ReplayRequest{Failed: true, Since: middle})
		if got := b.all(); len(got) != 1 || got[0].id() != failed[0].ID {
			t.Errorf("replayed: %d", len(got))
		}
		replay("the other one", api.ReplayRequest{Failed: true})
		replay("one that was delivered", api.ReplayRequest{Delivery: failed[0].ID})
		if got := b.all(); len(got) != 2 || len(b.deliveries("ops", api.DeliveryDelivered)) != 2 {
			t.Errorf("replayed: %d", len(got))
		}
	})
}
