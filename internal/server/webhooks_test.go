package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/policy"
)

// refusing is a receiver that wants nothing.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusTeapot, Header: http.Header{}, Body: http.NoBody}, nil
}

// withWebhooks gives the bed's server webhooks.
func (b *bed) withWebhooks() *webhook.Dispatcher {
	b.Helper()
	teller := func() *service.Describer {
		now := func() core.Time { return policy.At(time.Now()) }
		return service.NewEmbedded(b.engine, readFlow, now).Describer()
	}
	hooks, err := webhook.New(b.Context(), webhook.Config{
		Documents: b.journal.(journal.Documents), Feed: b.engine, Describer: teller, Send: true, Transport: refusing{},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.server.cfg.Webhooks = hooks
	b.Cleanup(hooks.Close)
	return hooks
}

// TestWebhooks checks that every request about webhooks has the same effect over HTTP as here.
func TestWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		here := b.withWebhooks()
		ctx := t.Context()
		same := func(what string, remote any, remoteErr error, local any, localErr error) {
			t.Helper()
			r, l := must(json.Marshal(remote)), must(json.Marshal(local))
			if string(r) != string(l) || api.CodeOf(remoteErr) != api.CodeOf(localErr) {
				t.Errorf("%s: over HTTP %s (%v), here %s (%v)", what, r, remoteErr, l, localErr)
			}
		}
		once := &policy.Policy{Retry: &policy.Retry{MaxAttempts: 1, BackoffCoefficient: 1}}
		h, err := b.client.AddWebhook(ctx, api.WebhookRequest{
			Name: "ops", URL: "https://example.com/x", Events: []string{"run.started"}, Policy: once,
		})
		if err != nil || !strings.HasPrefix(h.Secret, "whsec_") {
			t.Fatalf("%+v, %v", h, err)
		}
		if _, err := b.client.AddWebhook(ctx, api.WebhookRequest{Name: "ops", URL: "https://example.com"}); api.CodeOf(
			err) != api.CodeConflict {
			t.Errorf("a second one: %v", err)
		}
		if _, err := b.embedded.Start(ctx, api.StartRequest{Definition: definition(orderFlow)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		query := api.DeliveryQuery{State: api.DeliveryFailed, Limit: 5}
		page, err := b.client.Deliveries(ctx, "ops", query)
		if err != nil || len(page.Deliveries) != 1 {
			t.Fatalf("deliveries: %+v, %v", page, err)
		}
		local, localErr := here.Deliveries(ctx, "ops", query)
		same("deliveries", page, err, local, localErr)
		id := page.Deliveries[0].ID
		d, err := b.client.Delivery(ctx, "ops", id)
		one, localErr := here.Delivery(ctx, "ops", id)
		same("delivery", d, err, one, localErr)
		if r, err := b.client.Replay(ctx, "ops", api.ReplayRequest{Failed: true}); err != nil || r.Count != 1 {
			t.Errorf("replay: %+v, %v", r, err)
		}
		synctest.Wait()
		if d, err := b.client.TestWebhook(ctx, "ops"); err != nil || d.State != api.DeliveryFailed {
			t.Errorf("test: %+v, %v", d, err)
		}
		if r, err := b.client.RotateSecret(ctx, "ops", api.Rotation{}); err != nil || r.Secret == h.Secret {
			t.Errorf("rotate: %+v, %v", r, err)
		}
		off := true
		if h, err := b.client.ChangeWebhook(ctx, "ops", api.WebhookChange{
			Disabled: &off, Workflows: []string{"order"},
		}); err != nil || h.DisabledAt == 0 || len(h.Workflows) != 1 || h.Events[0] != "run.started" {
			t.Errorf("change: %+v, %v", h, err)
		}
		all, err := b.client.Webhooks(ctx)
		localAll, localErr := here.Webhooks(ctx)
		same("list", all, err, localAll, localErr)
		show, err := b.client.Webhook(ctx, "ops")
		localShow, localErr := here.Webhook(ctx, "ops")
		same("show", show, err, localShow, localErr)
		if err := b.client.RemoveWebhook(ctx, "ops"); err != nil {
			t.Error(err)
		}
		_, err = b.client.Webhook(ctx, "ops")
		_, localErr = here.Webhook(ctx, "ops")
		same("show what is gone", nil, err, nil, localErr)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestBadWebhooks checks that senseless requests get problems with the place of the fault.
func TestBadWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		if status, _, text := b.plain("GET", "/api/v1/webhooks", ""); status != http.StatusMethodNotAllowed {
			t.Errorf("without webhooks: %d %s", status, text)
		}
		b.withWebhooks()
		for _, test := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"POST", "", `{"url": "https://example.com"}`, 400, "name"},
			{"POST", "", `{"name": "x", "url": "https://example.com", "event": []}`, 400, `"pointer":"/event"`},
			{"POST", "", `{"name": "x", "url": 7}`, 400, `"pointer":"/url"`},
			{"POST", "", `{"name": "x", "url": "http://192.168.0.1"}`, 400, "192.168.0.1 is a private"},
			{"POST", "", `{"name": "x", "url": "https://example.com", "events": ["nope"]}`, 400, "events[0]"},
			{"POST", "", `{"name": "x", "url": "https://example.com", "secret": "s"}`, 400, "whsec_"},
			{"GET", "/none", "", 404, `there is no webhook \"none\"`},
			{"DELETE", "/none", "", 404, "not_found"},
			{"PATCH", "/none", `{}`, 404, "not_found"},
			{"GET", "/none/deliveries?state=lost", "", 400, `"parameter":"state"`},
			{"GET", "/none/deliveries?limit=0", "", 400, `"parameter":"limit"`},
			{"GET", "/none/deliveries?since=yesterday", "", 400, `"parameter":"since"`},
			{"POST", "/none/rotate", `{"overlap": "x"}`, 400, "duration: missing number"},
			{"POST", "/none/replay", `{}`, 404, "not_found"},
		} {
			header := []string{}
			if test.body != "" {
				header = []string{"Content-Type", "application/json"}
			}
			status, _, text := b.plain(test.method, "/api/v1/webhooks"+test.path, test.body, header...)
			if status != test.status || !strings.Contains(text, test.want) {
				t.Errorf("%s %s %s: %d %s, want %q", test.method, test.path, test.body, status, text, test.want)
			}
		}
	})
}
