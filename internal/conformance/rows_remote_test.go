package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/kind"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	rows["T13"] = scheduleToStartIsMeasured
}

// distant is a server on this machine, whose task steps are executed by workers that ask it over HTTP.
type distant struct {
	*testing.T
	url    string
	client *httpapi.Client
}

func newDistant(t *testing.T) *distant {
	t.Helper()
	counts := metrics.New("test")
	n, err := node.New(node.Config{
		Engine:  engine.Config{Journal: memory.New(), Observer: counts.Observer()},
		Plugins: []kind.Plugin{flowkind.Plugin()},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := func() core.Time { return policy.At(time.Now()) }
	svc := service.NewEmbedded(n.Engine, func(d journal.Definition) (*service.Prepared, error) {
		def, err := n.Compile(d)
		begin := func(input []byte) (core.Start, error) { return core.Start{Input: input}, nil }
		return &service.Prepared{Definition: def, Begin: begin}, err
	}, now)
	queues := remote.New(remote.Config{
		Engine: n.Engine, Run: svc.Run, Now: now, Own: slices.Collect(maps.Keys(n.Executors())),
	})
	n.Engine.ServeRemote("", queues)
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Config{Service: svc, Tasks: queues, Metrics: counts})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	d := &distant{T: t, url: "http://" + l.Addr().String()}
	if d.client, err = httpapi.New(d.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.client.Close()
		queues.Drain(context.Background())
		if err := errors.Join(s.Close(), <-served, n.Close()); err != nil {
			t.Error(err)
		}
		queues.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return d
}

// start starts a flow.
func (d *distant) start(flow string) string {
	d.Helper()
	def, err := flowkind.Bundle{Flow: flowkind.Source{File: "f.yaml", Text: flow}}.Definition("f")
	if err != nil {
		d.Fatal(err)
	}
	st, err := d.client.Start(d.Context(), api.StartRequest{Definition: api.Definition{
		ID: def.ID.String(), Kind: def.Kind, Name: def.Name, Source: string(def.Source),
	}})
	if err != nil {
		d.Fatal(err)
	}
	return st.Run
}

// work executes tasks until stop is called.
func (d *distant) work(handlers ...pawl.AnyHandler) (stop func()) {
	d.Helper()
	ctx, cancel := context.WithCancel(d.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- pawlhttp.Worker{Server: d.url, Queue: "far", Handlers: handlers, Name: "afar"}.Run(ctx)
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			d.Error(err)
		}
	}
}

// scheduleToStartIsMeasured checks that the time that attempts wait for a worker is a published metric. Workers are
// elsewhere.
func scheduleToStartIsMeasured(t *testing.T) {
	d := newDistant(t)
	const waits = 300 * time.Millisecond
	run := d.start(`{pawl: 1, name: f, steps: [{name: a, task: {queue: far, type: Double, input: 21}}], ` +
		`output: "${{ steps.a.output }}"}`)
	ready, cancel := context.WithTimeout(t.Context(), waits)
	<-ready.Done() // no worker is there yet
	cancel()
	failed := false
	double := pawl.Handle("Double", func(ctx context.Context, n int) (int, error) {
		pawl.Heartbeat[map[string]int]{}.Beat(ctx, map[string]int{"n": n})
		if !failed {
			failed = true
			return 0, &policy.Failure{Kind: policy.KindFailed, Type: "Odd", Message: "not now", Code: 7}
		}
		return 2 * n, nil
	})
	defer d.work(double)()
	if out, err := d.client.Wait(t.Context(), run); err != nil || out.Phase != api.RunFailed || out.Failure == nil {
		t.Fatalf("%+v %v", out, err)
	}
	r, err := d.client.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	a := r.Steps[0].Attempts[0]
	if waited := a.StartedAt.Sub(a.ReadyAt); a.Worker != "afar" || waited < waits || a.Failure.Code != 7 ||
		a.Failure.Type != "Odd" {
		t.Errorf("it waited for %s: %+v", waited, a)
	}
	again := d.start(`{pawl: 1, name: f, steps: [{name: a, task: {queue: far, type: Double, input: 21}}], ` +
		`output: "${{ steps.a.output }}"}`)
	if out, err := d.client.Wait(t.Context(), again); err != nil || string(out.Output) != "42" {
		t.Errorf("%+v %v", out, err)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var count, sum float64
	for line := range strings.Lines(string(page)) {
		_, _ = fmt.Sscanf(line, `pawl_schedule_to_start_seconds_count{namespace="default",queue="far"} %g`, &count)
		_, _ = fmt.Sscanf(line, `pawl_schedule_to_start_seconds_sum{namespace="default",queue="far"} %g`, &sum)
	}
	if count != 2 || sum < waits.Seconds() || sum > 60 {
		t.Errorf("%g attempts waited %gs in all:\n%s", count, sum, page)
	}
}
