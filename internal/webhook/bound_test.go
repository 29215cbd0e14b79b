package webhook

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

func labelled(to string) func(*api.StartRequest) {
	return func(r *api.StartRequest) { r.Labels = map[string]string{"to": to} }
}

// TestPendingIsBounded checks that a webhook whose receiver is away keeps what waits, and misses what comes when too
// much waits already. That is said, also after a kill, and other webhooks miss nothing.
func TestPendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{mostPending: 3, twice: true}
		r.answers(func(req *request) (*http.Response, error) {
			if req.Data.Labels["to"] == "away" {
				return respond(http.StatusServiceUnavailable, ""), nil
			}
			return status204(), nil
		})
		b := openBed(t, memory.NewPartitions(2), r)
		for _, name := range []string{"away", "there"} {
			b.add(name, func(r *api.WebhookRequest) {
				r.Events, r.Labels = []string{"run.failed"}, map[string]string{"to": name}
			})
		}
		for range 5 {
			for _, name := range []string{"away", "there"} {
				b.start(failing, labelled(name))
			}
			pass(10 * time.Second)
		}
		check := func(when string) {
			t.Helper()
			h := must(b.Webhook(t.Context(), "away"))
			if h.Pending != 3 || h.Missed != 2 || h.MissedAt == 0 {
				t.Errorf("%s: %d are pending, %d missed at %s", when, h.Pending, h.Missed, h.MissedAt)
			}
			if h := must(b.Webhook(t.Context(), "there")); h.Pending != 0 || h.Missed != 0 || h.MissedAt != 0 {
				t.Errorf("%s: the other webhook: %+v", when, h)
			}
		}
		check("at first")
		counts := b.Counts()
		want := []api.WebhookCounts{
			{Webhook: "away", Pending: 3, Missed: 2, Retried: counts[0].Retried}, {Webhook: "there", Delivered: 5},
		}
		if len(counts) != 2 || counts[0].Retried < 3 || counts[0] != want[0] || counts[1] != want[1] {
			t.Errorf("counted: %+v", counts)
		}
		b = b.kill()
		check("after a kill")
		b.all()
		r.answers(nil) // it is back
		<-time.After(time.Hour)
		if came := b.all(); len(came) != 3 {
			t.Errorf("%d messages came after the receiver was back, want the three that waited", len(came))
		}
		b.start(failing, labelled("away"))
		if came := b.all(); len(came) != 1 {
			t.Errorf("%d messages came of a new run", len(came))
		}
		b.close()
	})
}
