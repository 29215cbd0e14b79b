package webhook

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestNotices checks that what no run has caused goes to the webhooks that ask for it, once, with what the caller
// stores, and that those for other workflows or for labels get none.
func TestNotices(t *testing.T) {
	run(t, func(t *testing.T, b *bed) {
		defer func() { b.close() }()
		add := func(name string, r api.WebhookRequest) {
			r.Name, r.URL = name, everywhere
			if _, err := b.AddWebhook(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		add("default", api.WebhookRequest{})
		if b.Wanted(api.EventAttentionRaised) {
			t.Error("a webhook gets notices without asking for them")
		}
		add("ops", api.WebhookRequest{Events: []string{"attention.*"}})
		add("shop", api.WebhookRequest{Events: []string{"*"}, Workflows: []string{"shop"}})
		add("team", api.WebhookRequest{Events: []string{"*"}, Labels: map[string]string{"team": "a"}})
		if !b.Wanted(api.EventAttentionRaised) {
			t.Error("nobody wants notices")
		}
		n := []Notice{
			{ID: "k1", Type: api.EventAttentionRaised, At: 5, Workflow: "shop", Data: map[string]string{"key": "k1"}},
			{ID: "k2", Type: api.EventAttentionCleared, At: 5, Data: map[string]string{"key": "k2"}},
		}
		for range 2 {
			also := journal.Document{Key: "attention/x", Value: []byte("{}")}
			if err := b.Tell(t.Context(), n, also); err != nil {
				t.Fatal(err)
			}
		}
		var types []string
		for _, r := range b.all() {
			types = append(types, r.Type)
		}
		if got := strings.Join(types, " "); strings.Count(got, "raised") != 2 || strings.Count(got, "cleared") != 1 {
			t.Errorf("sent were %s", got)
		}
		found, err := b.journal.ReadDocuments(t.Context(), "attention/x")
		if err != nil || len(found) != 1 {
			t.Errorf("stored with it: %v, %v", found, err)
		}
		page, err := b.Deliveries(t.Context(), "ops", api.DeliveryQuery{})
		if err != nil || len(page.Deliveries) != 2 || page.Deliveries[0].State != api.DeliveryDelivered {
			t.Errorf("deliveries: %+v, %v", page, err)
		}
	})
}
