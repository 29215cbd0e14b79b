//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// eventful is a flow whose runs have a dozen events each.
const eventful = `pawl: 1
name: eventful
steps:
  - {name: a, noop: {}}
  - {name: b, needs: [a], sleep: 10ms}
  - {name: c, needs: [b], sleep: 20ms}
`

// inbox is a receiver of messages, which checks their signatures.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex
	hook   *standard.Webhook
	wrong  []string
	events map[string][]int // numbers of the events of each run, in the order in which they came first
	ended  int              // runs whose last event has come
	away   bool             // the receiver takes nothing now
	came   chan struct{}    // receives a value when something has come
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	in := &inbox{events: map[string][]int{}, came: make(chan struct{}, 1)}
	in.Server = httptest.NewServer(http.HandlerFunc(in.take))
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server was killed
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.away {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if err := in.hook.Verify(body, r.Header); err != nil {
		in.wrong = append(in.wrong, fmt.Sprintf("%v: %s", err, body))
	}
	var m struct {
		Type string
		Data struct {
			Run string
			Seq int
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		in.wrong = append(in.wrong, err.Error())
	}
	if run := m.Data.Run; !slices.Contains(in.events[run], m.Data.Seq) {
		in.events[run] = append(in.events[run], m.Data.Seq)
		if m.Type == "run.succeeded" {
			in.ended++
		}
	}
	select {
	case in.came <- struct{}{}:
	default: // it is known already
	}
	w.WriteHeader(http.StatusNoContent)
}

// await waits until the state of the inbox is as wanted.
func (in *inbox) await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.After(patience); ; {
		in.mu.Lock()
		done := reached()
		in.mu.Unlock()
		if done {
			return
		}
		select {
		case <-in.came:
		case <-end:
			t.Fatalf("%s did not happen; %d runs have ended, and %d have told something", what, in.ended,
				len(in.events))
		}
	}
}

// register adds a webhook for all events.
func (in *inbox) register(p *process, token string) {
	p.Helper()
	status, text := p.ask(token, "POST", "/api/v1/webhooks", fmt.Sprintf(
		`{"name":"all","url":%q,"events":["*"],"policy":{"retry":"fixed(1000, 50ms)"}}`, in.URL))
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(text), &made); status != http.StatusCreated || err != nil {
		p.Fatalf("%d %s", status, text)
	}
	hook, err := standard.NewWebhook(made.Secret)
	if err != nil {
		p.Fatal(err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.hook = hook
}

// begin starts a run and returns its id.
func (p *process) begin(token, workflow string) string {
	p.Helper()
	status, text := p.ask(token, "POST", "/api/v1/runs", `{"workflow":"`+workflow+`"}`)
	var started struct{ Run string }
	if err := json.Unmarshal([]byte(text), &started); status != http.StatusCreated || err != nil {
		p.Fatalf("%d %s", status, text)
	}
	return started.Run
}

// numbers returns the numbers of the events of a run that has ended, as the server tells them.
func (p *process) numbers(token, run string) (all []int) {
	p.Helper()
	_, text := p.ask(token, "GET", "/api/v1/runs/"+run+"/events", "")
	for line := range strings.Lines(text) {
		var ev struct{ Seq int }
		if data, ok := strings.CutPrefix(line, "data:"); ok && json.Unmarshal([]byte(data), &ev) == nil && ev.Seq > 0 {
			all = append(all, ev.Seq)
		}
	}
	return all
}

// compare holds what came against what happened.
func (in *inbox) compare(p *process, token string, runs []string) {
	p.Helper()
	for _, run := range runs {
		happened := p.numbers(token, run)
		in.mu.Lock()
		came := in.events[run]
		in.mu.Unlock()
		if len(happened) < 8 || !slices.Equal(happened, came) {
			p.Errorf("run %s: the events %v came as %v", run, happened, came)
		}
	}
	if len(in.wrong) > 0 {
		p.Errorf("messages that were not right: %v", in.wrong)
	}
}

// TestWebhooksAreNotLostByKills checks that a receiver gets every event of every run, in the order of the run, signed
// as Standard Webhooks has it, however often the server is killed.
func TestWebhooksAreNotLostByKills(t *testing.T) {
	nightly.Only(t, "it kills processes for a while")
	t.Parallel()
	dir, in := t.TempDir(), newInbox(t)
	const database = "sqlite:p.db"
	token := createToken(t, dir, database, "root", "--role", "admin")
	if err := writeFolder(dir, "flows/eventful.yaml", eventful); err != nil {
		t.Fatal(err)
	}
	args := []string{"--database", database, "--webhook-allow", "127.0.0.1", "flows"}
	p := startServer(t, dir, args...)
	in.register(p, token)
	var runs []string
	for round := range 5 {
		for range 8 {
			runs = append(runs, p.begin(token, "eventful"))
		}
		in.await(t, "a part of the messages", func() bool { return len(in.events) > round*8+2 })
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait() // it was killed
		p = startServer(t, dir, args...)
	}
	in.await(t, "the end of all runs", func() bool { return in.ended == len(runs) })
	in.compare(p, token, runs)
	p.signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestServerOnPostgres checks that a server on PostgreSQL has webhooks and namespaces as on a file.
func TestServerOnPostgres(t *testing.T) {
	t.Parallel()
	database := pgtest.StartServer(t).DSN()
	dir, plain, blue := t.TempDir(), newInbox(t), newInbox(t)
	for _, name := range []string{"flows/eventful.yaml", "flows/blue/eventful.yaml"} {
		if err := writeFolder(dir, name, eventful); err != nil {
			t.Fatal(err)
		}
	}
	token := createToken(t, dir, database, "root", "--role", "admin")
	other := createToken(t, dir, database, "ada", "--role", "admin", "--namespace", "blue")
	p := startServer(t, dir, "--database", database, "--namespaces", "blue", "--webhook-allow", "127.0.0.1", "flows")
	plain.register(p, token)
	blue.register(p, other)
	var runs, others []string
	for range 5 {
		runs, others = append(runs, p.begin(token, "eventful")), append(others, p.begin(other, "eventful"))
	}
	plain.await(t, "the end of all runs", func() bool { return plain.ended == len(runs) })
	blue.await(t, "the end of all runs", func() bool { return blue.ended == len(others) })
	plain.compare(p, token, runs)
	blue.compare(p, other, others)
	if len(plain.events) != len(runs) || len(blue.events) != len(others) {
		t.Errorf("%d and %d runs have told something", len(plain.events), len(blue.events))
	}
	for _, run := range runs {
		if status, text := p.ask(other, "GET", "/api/v1/runs/"+run, ""); status != http.StatusNotFound {
			t.Errorf("a run of another namespace: %d %s", status, text)
		}
	}
	p.signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
