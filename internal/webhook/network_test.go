package webhook

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// server returns a receiver on a real network, and webhooks that may reach it.
func server(t *testing.T, allowed bool, handler http.HandlerFunc) (*Dispatcher, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	var allow []netip.Prefix
	if allowed {
		allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	b := &bed{T: t, receiver: &receiver{}}
	first := openBed(t, memory.New(), b.receiver)
	first.Dispatcher.Close()
	d, err := New(t.Context(), Config{
		Documents: first.journal, Feed: first.engine, Describer: first.svc.Describer, Send: true, Allow: allow,
	})
	if err != nil {
		t.Fatal(err)
	}
	first.Dispatcher = d
	t.Cleanup(first.close)
	return d, s
}

// try sends a test message to a URL, whether or not it could be registered.
func try(t *testing.T, d *Dispatcher, url string, within time.Duration) api.Delivery {
	t.Helper()
	_, err := d.AddWebhook(t.Context(), api.WebhookRequest{Name: "ops", URL: everywhere, Policy: &policy.Policy{
		Limits: policy.Limits{StartToClose: &policy.Limit{After: within, Retry: true}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	h := *d.targets["ops"].hook
	h.URL = url
	d.targets["ops"].hook = &h
	d.mu.Unlock()
	dl, err := d.TestWebhook(t.Context(), "ops")
	if err != nil {
		t.Fatal(err)
	}
	return dl
}

// TestRebinding checks that a name that leads to a private address when it is connected to is refused then, whatever it
// was at the registration.
func TestRebinding(t *testing.T) {
	var requests atomic.Int64
	d, s := server(t, false, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	dl := try(t, d, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), time.Minute)
	if dl.State != api.DeliveryFailed || dl.Attempts[0].Failure.Type != "address_refused" || requests.Load() != 0 {
		t.Errorf("%d requests; %s", requests.Load(), dl.Why)
	}
}

// TestRedirect checks that a redirect is a failure. Where it leads to gets nothing.
func TestRedirect(t *testing.T) {
	var requests atomic.Int64
	d, s := server(t, true, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
	})
	dl := try(t, d, s.URL, time.Minute)
	if dl.State != api.DeliveryFailed || dl.Attempts[0].Status != 307 || requests.Load() != 1 ||
		!strings.Contains(dl.Why, "redirects are not followed") {
		t.Errorf("%d requests; %s", requests.Load(), dl.Why)
	}
}

// TestEndlessAnswer checks that only the beginning of an endless body is read and kept.
func TestEndlessAnswer(t *testing.T) {
	d, s := server(t, true, func(w http.ResponseWriter, r *http.Request) {
		part := strings.Repeat("x", 1<<16)
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(part)); err != nil {
				return
			}
		}
	})
	dl := try(t, d, s.URL, time.Minute)
	if n := len(dl.Attempts[0].Response); dl.State != api.DeliveryDelivered || n == 0 || n > mostShown+10 {
		t.Errorf("%d bytes; %s", n, dl.Why)
	}
}

// TestHangingReceiver checks that a receiver that does not answer costs the time of an attempt, no more.
func TestHangingReceiver(t *testing.T) {
	over := make(chan struct{})
	d, s := server(t, true, func(http.ResponseWriter, *http.Request) { <-over })
	defer close(over)
	dl := try(t, d, s.URL, 50*time.Millisecond)
	if f := dl.Attempts[0].Failure; f == nil || f.Kind != policy.KindTimeout || f.Limit != policy.LimitStartToClose {
		t.Errorf("%+v", dl.Attempts[0])
	}
}
