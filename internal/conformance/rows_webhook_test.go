package conformance

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/policy"
)

func init() { addDialect("V7", stevoraWebhook) }

// stevoraTold has the words of Stevora for runs and events.
type stevoraTold struct{}

func (stevoraTold) Run(t *trail.Trail, _ func(*trail.Trail, core.StepID) (*trail.Trail, *service.Prepared)) api.Words {
	return api.Words{System: "Stevora", Status: stevora.Status(t.Run.Phase.String()), Message: stevora.Message(t.Run)}
}
func (stevoraTold) Step(*core.Step) api.Words { return api.Words{} }

func (stevoraTold) Event(e core.Event) string {
	return stevora.Event(e.Type, e.Name, e.Attempt, e.Failure != nil)
}

// hookMessage is what the receiver of a webhook got.
type hookMessage struct {
	id, stamp string
	genuine   error // the error of the signature's check
	Type      string
	Data      struct {
		Seq     int
		Dialect string
		Words   api.Words
	}
}

// hookReceiver answers the first message of each type with a failure.
type hookReceiver struct {
	mu     sync.Mutex
	verify *standard.Webhook
	got    []hookMessage
	ended  chan struct{} // closed with the second workflow.failed
}

func (r *hookReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	m := hookMessage{id: req.Header.Get("webhook-id"), stamp: req.Header.Get("webhook-timestamp")}
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	m.genuine = err
	if err == nil {
		m.genuine = r.verify.Verify(body, req.Header)
	}
	before := slices.ContainsFunc(r.got, func(o hookMessage) bool { return o.Type == m.Type })
	r.got = append(r.got, m)
	if !before {
		http.Error(w, "not yet", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	if m.Type == "workflow.failed" {
		close(r.ended)
	}
}

// hookServer serves the webhooks of a stage over HTTP, and returns a client.
func hookServer(t *testing.T, s *stage, allow ...netip.Prefix) *httpapi.Client {
	t.Helper()
	read := func(d journal.Definition) (*service.Prepared, error) {
		def, err := s.kinds()[d.Kind].Compile(d)
		return &service.Prepared{Definition: def, Words: stevoraTold{}}, err
	}
	svc := service.NewEmbedded(s.engine, read, func() core.Time { return policy.At(time.Now()) })
	hooks, err := webhook.New(t.Context(), webhook.Config{
		Documents: s.journal, Feed: s.engine, Describer: svc.Describer, Send: true, Allow: allow,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.Config{Service: svc, Webhooks: hooks})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	c, err := httpapi.New("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		hooks.Close()
	})
	return c
}

// stevoraWebhook checks that a run whose attempts are used up sends the webhook workflow.failed, over HTTP. The
// receiver gets it again when it fails, with the same id, and after the events that came before it.
func stevoraWebhook(t *testing.T) {
	c := stevoraTask(t, `{"maxAttempts": 2, "backoffMs": 100}`)
	s := newStage(t, c)
	s.script = map[string][]try{"work": {failed}}
	s.open(nil)
	t.Cleanup(s.close)
	r := &hookReceiver{ended: make(chan struct{})}
	target := httptest.NewServer(r)
	t.Cleanup(target.Close)
	client := hookServer(t, s, netip.MustParsePrefix("127.0.0.0/8"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := client.AddWebhook(ctx, api.WebhookRequest{
		Name: "ops", URL: target.URL, Events: []string{"workflow.failed", "attempt.ended"},
		Policy: &policy.Policy{Retry: &policy.Retry{
			MaxAttempts: 3, InitialInterval: 300 * time.Millisecond, BackoffCoefficient: 1,
			On: []policy.Kind{policy.KindError, policy.KindTimeout},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.verify, err = standard.NewWebhook(h.Secret); err != nil {
		t.Fatal(err)
	}
	s.start(c.Flow)
	select {
	case <-r.ended:
	case <-ctx.Done():
		t.Fatal("workflow.failed does not arrive")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	checkMessages(t, r.got)
	if shown, err := client.Webhook(ctx, "ops"); err != nil || shown.Secret != "" {
		t.Errorf("the secret is shown again: %+v, %v", shown, err)
	}
	_, err = client.Replay(ctx, "ops", api.ReplayRequest{Delivery: "evt_none"})
	if api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("replay of nothing: %v", err)
	}
	_, err = client.AddWebhook(ctx, api.WebhookRequest{Name: "inside", URL: "http://10.0.0.1/"})
	if api.CodeOf(err) != api.CodeInvalid || !strings.Contains(err.Error(), "url: 10.0.0.1 is a private") {
		t.Errorf("an address that is not allowed: %v", err)
	}
}

// checkMessages checks that the receiver refuses the first attempt of each message. Two attempts of the step come
// before the end.
func checkMessages(t *testing.T, got []hookMessage) {
	t.Helper()
	var types []string
	for i, m := range got {
		types = append(types, m.Type)
		if m.genuine != nil {
			t.Errorf("message %d (%s): %v", i, m.Type, m.genuine)
		}
	}
	want := []string{"attempt.ended", "attempt.ended", "attempt.ended", "workflow.failed", "workflow.failed"}
	if !slices.Equal(types, want) {
		t.Fatalf("got %v, want %v", types, want)
	}
	if got[0].id != got[1].id || got[1].id == got[2].id || got[3].id != got[4].id {
		t.Errorf("ids: %s %s %s %s %s", got[0].id, got[1].id, got[2].id, got[3].id, got[4].id)
	}
	if got[0].Data.Dialect != "STEP_FAILED" || got[2].Data.Dialect != "STEP_FAILED" ||
		got[2].Data.Seq <= got[0].Data.Seq {
		t.Errorf("the attempts are told as %+v, %+v", got[0].Data, got[2].Data)
	}
	last := got[4].Data
	if last.Dialect != "WORKFLOW_FAILED" || last.Words.Status != "FAILED" ||
		last.Words.Message != "Step 'work' failed after 2 attempts" {
		t.Errorf("workflow.failed tells %+v", last)
	}
}
