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
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

const orderFlow = `pawl: 1
name: order
timeout: 2h
input: {type: object, properties: {n: {type: integer, default: 7}}}
steps:
  - {name: first, noop: {}}
  - {name: broken, needs: [first], fail: {kind: error, message: no <paper>}, retry: "fixed(3, 10s)", continueOn: error}
  - {name: approval, needs: [first], wait: {event: approved}, timeout: 30m}
  - {name: nap, needs: [approval], sleep: 5m}
  - {name: each, needs: [first], forEach: "${{ 1..3 }}", noop: {}}
output: {n: "${{ input.n }}"}
`

func readFlow(d journal.Definition) (*service.Workflow, error) {
	doc, err := flow.Parse(d.Name+".yaml", d.Source)
	if err != nil {
		return nil, err
	}
	def, err := flow.Compile(doc)
	if err != nil {
		return nil, err
	}
	w := &service.Workflow{Definition: def, Begin: doc.Start}
	for _, s := range doc.Steps {
		w.Plan = append(w.Plan, api.PlannedStep{Name: s.Name, Needs: s.Needs})
	}
	w.Rerun = func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error) {
		return flow.Rerun(doc, earlier, steps, from)
	}
	return w, nil
}

func definition(source string) api.Definition {
	return api.Definition{ID: flow.ID([]byte(source)).String(), Kind: journal.KindFlow, Name: "order", Source: source}
}

// flows are the flows of a test's server.
type flows map[string]string

func (f flows) List(context.Context) ([]Flow, error) {
	var out []Flow
	for name, source := range f {
		out = append(out, Flow{Name: name, Definition: definition(source).ID})
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

// bed has an engine in memory, its service, and a server of that service with a client.
type bed struct {
	*testing.T
	journal  journal.Journal
	engine   *engine.Engine
	embedded api.Service
	server   *Server
	client   *httpapi.Client
	listener *pipes
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
	b := &bed{T: t, journal: j, engine: e, listener: newPipes()}
	clock := func() core.Time { return policy.At(time.Now()) }
	b.embedded = service.NewEmbedded(e, readFlow, clock)
	b.queues = remote.New(remote.Config{Engine: e, Run: b.embedded.Run, Now: clock})
	e.Serve("", b.queues)
	if err := e.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	changes := b.embedded.(*service.Embedded).Changes(e, slog.New(slog.DiscardHandler))
	cfg := Config{
		Service: b.embedded, Changes: changes, Answers: answersOf(j), Tasks: b.queues, Flows: flows{"order": orderFlow},
		Version: "1.2.3", Policies: cases.Lab{Step: b.embedded.(*service.Embedded).Step},
	}
	for _, change := range with {
		change(&cfg)
	}
	b.server = New(cfg)
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(b.listener) }()
	b.client = httpapi.Over("the server", b.listener.dial)
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
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.listener.dial(ctx) },
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

// pipes is a listener whose connections are in memory, so that their time is the test's.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	open []net.Conn // the servers' ends
}

// cut breaks all connections.
func (p *pipes) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open = append(p.open, there)
		return here, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
