package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/cases"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

const orderFlow = `pawl: 1
name: order
timeout: 2h
input: {type: object, properties: {n: {type: integer, default: 7}, more: {type: string}}}
steps:
  - {name: first, noop: {}}
  - {name: broken, needs: [first], fail: {kind: error, message: no <paper>}, retry: "fixed(3, 10s)", continueOn: error}
  - {name: approval, needs: [first], wait: {event: approved}, timeout: 30m}
  - {name: nap, needs: [approval], sleep: 5m}
  - {name: each, needs: [first], forEach: "${{ 1..3 }}", noop: {}}
output: {n: "${{ input.n }}"}
`

func readFlow(d journal.Definition) (*service.Prepared, error) {
	doc, err := flow.Parse(d.Name+".yaml", d.Source)
	if err != nil {
		return nil, err
	}
	def, err := flow.Compile(doc)
	if err != nil {
		return nil, err
	}
	w := &service.Prepared{Definition: def, Begin: doc.Start}
	for _, s := range doc.Steps {
		w.Plan = append(w.Plan, api.PlannedStep{Name: s.Name, Needs: s.Needs})
	}
	w.Rerun = func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error) {
		return flow.Rerun(doc, earlier, steps, from)
	}
	w.Text = doc
	w.Continue = func(earlier *core.Run, was any, input []byte, steps []string, from bool) ([]core.Kept, error) {
		return flow.Continue(doc, was.(*flow.Document), earlier, input, steps, from)
	}
	return w, nil
}

func definition(source string) api.Definition {
	return api.Definition{ID: flow.ID([]byte(source)).String(), Kind: journal.KindFlow, Name: "order", Source: source}
}

// flows are the flows of a test's server.
type flows map[string]string

func (f flows) List(context.Context) ([]api.Flow, error) {
	var out []api.Flow
	for name, source := range f {
		out = append(out, api.Flow{Name: name, Definition: definition(source).ID})
	}
	return out, nil
}

func (f flows) Find(_ context.Context, name string) (api.Definition, error) {
	if source, ok := f[name]; ok {
		return definition(source), nil
	}
	return api.Definition{}, &api.Error{Code: api.CodeNotFound, Message: "there is no flow " + name}
}

func (f flows) Read(_ context.Context, text string) (api.Definition, error) {
	if _, err := flow.Parse("flow.yaml", []byte(text)); err != nil {
		return api.Definition{}, &api.Error{Code: api.CodeInvalid, Message: err.Error()}
	}
	return definition(text), nil
}

func (f flows) Check(_ context.Context, text string) (api.CheckedFlow, error) {
	doc, wrong := flow.Parse("flow.yaml", []byte(text))
	if wrong == nil {
		return api.CheckedFlow{Valid: true, Name: doc.Name, Steps: len(doc.Steps), Findings: []api.FlowFinding{}}, nil
	}
	return api.CheckedFlow{Findings: []api.FlowFinding{{Severity: "error", Message: wrong.Error()}}}, nil
}

// bed has an engine in memory, its service, and a server of that service with a client.
type bed struct {
	*testing.T
	journal  journal.Journal
	engine   *engine.Engine
	embedded api.Service
	server   *Server
	client   *httpapi.Client
	listener *memnet.Listener
	queues   *remote.Queues
	close    func() // the end of the test does it, too
}

func newBed(t *testing.T, with ...func(*Config)) *bed {
	t.Helper()
	return newBedOn(t, memory.New(), with...)
}

// newBedOn makes a bed on a journal that may have runs.
func newBedOn(t *testing.T, j journal.Journal, with ...func(*Config)) *bed {
	t.Helper()
	compile := func(d journal.Definition) (*core.Definition, error) {
		w, err := readFlow(d)
		if err != nil {
			return nil, err
		}
		return w.Definition, nil
	}
	e, err := engine.New(engine.Config{
		Journal: j, Kinds: map[string]engine.Kind{journal.KindFlow: {Compile: compile}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pool := worker.NewPool(worker.PoolConfig{Reporter: e})
	e.Serve("", pool)
	b := &bed{T: t, journal: j, engine: e, listener: memnet.Listen()}
	clock := func() core.Time { return policy.At(time.Now()) }
	b.embedded = service.NewEmbedded(e, readFlow, clock)
	b.queues = remote.New(remote.Config{Engine: e, Run: b.embedded.Run, Now: clock, Own: []string{"exec"}})
	e.ServeRemote("", b.queues)
	if err := e.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	changes := b.embedded.(*service.Embedded).Changes(e, slog.New(slog.DiscardHandler))
	cfg := Config{
		Service: b.embedded, Changes: changes, Answers: answersOf(j), Tasks: b.queues, Flows: flows{"order": orderFlow},
		Version: "1.2.3", Policies: cases.Lab{},
	}
	for _, change := range with {
		change(&cfg)
	}
	b.server = New(cfg)
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(b.listener) }()
	b.client = httpapi.Over("the server", b.dial)
	b.close = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		b.client.Close()
		b.queues.Drain(ctx)
		defer b.queues.Close()
		changes.Close()
		if err := errors.Join(b.server.Close(), <-served, pool.Close(ctx), e.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.close)
	return b
}

// plain sends a request as any program may, and returns the answer.
func (b *bed) plain(method, path, body string, header ...string) (int, http.Header, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, "http://pawl"+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	return b.ask(req)
}

func (b *bed) ask(req *http.Request) (int, http.Header, string) {
	b.Helper()
	transport := &http.Transport{
		DialContext: b.listener.Dial,
	}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// dial connects to the server.
func (b *bed) dial(ctx context.Context) (net.Conn, error) { return b.listener.Dial(ctx, "", "") }
