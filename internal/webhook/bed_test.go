package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Flows of the tests: one that fails at once, and one that sleeps between its events.
const (
	failing = "pawl: 1\nname: failing\nsteps:\n  - {name: charge, fail: {kind: failed, message: no money}}\n"
	napping = "pawl: 1\nname: napping\nsteps:\n  - {name: nap, sleep: 1m}\n  - {name: more, needs: [nap], sleep: 1m}\n"
)

const everywhere = "https://example.com/hook"

// request is what a receiver got.
type request struct {
	at     time.Time
	header http.Header
	body   []byte
	Type   string `json:"type"`
	Data   struct {
		Run      string            `json:"run"`
		Seq      int               `json:"seq"`
		Workflow string            `json:"workflow"`
		Labels   map[string]string `json:"labels"`
	} `json:"data"`
}

func (r *request) id() string { return r.header.Get("webhook-id") }

// receiver is the other side of a test: a transport without a network.
type receiver struct {
	mostPending int  // how many deliveries a webhook may owe; 0 is the default
	twice       bool // each batch of the feed comes twice

	full    atomic.Bool  // documents cannot be stored
	lookups atomic.Int64 // reads of documents

	mu     sync.Mutex
	got    []request
	answer func(r *request) (*http.Response, error) // nil: 204
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	one := request{at: time.Now(), header: req.Header, body: body}
	if err := json.Unmarshal(body, &one); err != nil {
		return nil, err
	}
	r.mu.Lock()
	answer := r.answer
	r.got = append(r.got, one)
	r.mu.Unlock()
	if answer == nil {
		return status204(), nil
	}
	return answer(&one)
}

func status204() *http.Response { return respond(http.StatusNoContent, "") }

func respond(code int, body string, header ...string) *http.Response {
	res := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		res.Header.Set(header[i], header[i+1])
	}
	return res
}

// answers sets what the receiver does from now on.
func (r *receiver) answers(fn func(r *request) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = fn
}

func always(code int) func(*request) (*http.Response, error) {
	return func(*request) (*http.Response, error) { return respond(code, ""), nil }
}

// all returns what came, and forgets it.
func (r *receiver) all() []request {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// bed has an engine in memory with webhooks.
type bed struct {
	*testing.T
	*Dispatcher
	*receiver
	journal *memory.Journal
	engine  *engine.Engine
	pool    *worker.Pool
	svc     *service.Embedded
}

func readFlow(d journal.Definition) (*service.Prepared, error) {
	doc, err := flow.Parse(d.Name+".yaml", d.Source)
	if err != nil {
		return nil, err
	}
	def, err := flow.Compile(doc)
	return &service.Prepared{Definition: def, Begin: doc.Start}, err
}

func compileFlow(d journal.Definition) (*core.Definition, error) {
	w, err := readFlow(d)
	if err != nil {
		return nil, err
	}
	return w.Definition, nil
}

func newBed(t *testing.T) *bed { return openBed(t, memory.NewPartitions(2), &receiver{}) }

func openBed(t *testing.T, j *memory.Journal, r *receiver, change ...func(*engine.Config)) *bed {
	t.Helper()
	j.Fault = func(op memory.Op, _ *journal.Batch) error {
		if op == memory.OpPutDocuments && r.full.Load() {
			return journal.ErrFull
		}
		if op == memory.OpFindDocuments || op == memory.OpReadDocuments {
			r.lookups.Add(1)
		}
		return nil
	}
	cfg := engine.Config{Journal: j, Kinds: map[string]engine.Kind{journal.KindFlow: {Compile: compileFlow}}}
	for _, fn := range change {
		fn(&cfg)
	}
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, receiver: r, journal: j, engine: e, pool: worker.NewPool(worker.PoolConfig{Reporter: e})}
	e.Serve("", b.pool)
	if err := e.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.svc = service.NewEmbedded(e, readFlow, func() core.Time { return policy.At(time.Now()) })
	feed := Feed(e)
	if r.twice {
		feed = &again{Engine: e}
	}
	b.Dispatcher, err = New(t.Context(), Config{
		Documents: j, Feed: feed, Describer: b.svc.Describer, Send: true, Transport: r, MostPending: r.mostPending,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// close ends the process in an orderly way.
func (b *bed) close() {
	b.Helper()
	b.Dispatcher.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.pool.Close(ctx); err != nil {
		b.Error(err)
	}
	if err := b.engine.Close(); err != nil {
		b.Error(err)
	}
}

// again brings each batch of a feed twice, as after a crash between the batch and its position.
type again struct {
	*engine.Engine
	seen sync.Map // places of batches that came
}

func (a *again) Feed(ctx context.Context, name string, fn func(int, uint64, []core.Entry) error) error {
	return a.Engine.Feed(ctx, name, func(partition int, seq uint64, entries []core.Entry) error {
		err := fn(partition, seq, entries)
		if _, seen := a.seen.LoadOrStore([2]uint64{uint64(partition), seq}, true); err == nil && !seen {
			return errors.New("the position is lost")
		}
		return err
	})
}

// kill ends the process at once, and returns the one that follows.
func (b *bed) kill(change ...func(*engine.Config)) *bed {
	b.Helper()
	durable := b.journal.Reopen()
	b.Dispatcher.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = b.pool.Close(ctx)
	_ = b.engine.Close() // its journal is gone
	return openBed(b.T, durable, b.receiver, change...)
}

func (b *bed) add(name string, change ...func(*api.WebhookRequest)) api.Webhook {
	b.Helper()
	r := api.WebhookRequest{Name: name, URL: everywhere}
	for _, fn := range change {
		fn(&r)
	}
	h, err := b.AddWebhook(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func events(types ...string) func(*api.WebhookRequest) {
	return func(r *api.WebhookRequest) { r.Events = types }
}

// start starts a run and returns its id.
func (b *bed) start(source string, change ...func(*api.StartRequest)) string {
	b.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(source, "pawl: 1\nname: "), "\n")
	r := api.StartRequest{Definition: api.Definition{
		ID: flow.ID([]byte(source)).String(), Kind: journal.KindFlow, Name: name, Source: source,
	}}
	for _, fn := range change {
		fn(&r)
	}
	started, err := b.svc.Start(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	return started.Run
}

// deliveries returns the deliveries of a webhook, the newest first.
func (b *bed) deliveries(name string, state api.DeliveryState) []api.Delivery {
	b.Helper()
	synctest.Wait()
	page, err := b.Deliveries(b.Context(), name, api.DeliveryQuery{State: state, Limit: mostLimit})
	if err != nil {
		b.Fatal(err)
	}
	return page.Deliveries
}

func (b *bed) delivery(name, id string) api.Delivery {
	b.Helper()
	d, err := b.Delivery(b.Context(), name, id)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func types(all []request) string {
	var b bytes.Buffer
	for i := range all {
		b.WriteString(all[i].Type + " ")
	}
	return strings.TrimSpace(b.String())
}
