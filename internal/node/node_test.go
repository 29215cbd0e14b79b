package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/kind"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closing is something to be closed. It notes the order of the closing and returns an error.
type closing struct {
	order *[]string
	what  string
}

func (c closing) Close() error {
	*c.order = append(*c.order, c.what)
	return errors.New(c.what + " cannot be closed")
}

// journalOf is a journal in memory.
type journalOf struct {
	*memory.Journal
	closing
	held bool
}

func (j journalOf) Close() error { return errors.Join(j.closing.Close(), j.Journal.Close()) }

func (j journalOf) Acquire(ctx context.Context, partition int, owner string) (journal.Lease, error) {
	if j.held {
		return journal.Lease{}, journal.ErrHeld
	}
	return j.Journal.Acquire(ctx, partition, owner)
}

// executor waits until it is stopped.
type executor struct {
	closing
	began chan struct{}
}

func (x executor) Execute(ctx context.Context, _ *core.Task, _ worker.Alive) worker.Result {
	close(x.began)
	<-ctx.Done()
	*x.order = append(*x.order, "attempt")
	return worker.Result{}
}

func definition(t *testing.T, text string) journal.Definition {
	t.Helper()
	d, err := flowkind.Bundle{Flow: flowkind.Source{File: "f.yaml", Text: text}}.Definition("f")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCloses checks that the executors stop first, then the engine, then the journal. Close returns every error.
func TestCloses(t *testing.T) {
	var order []string
	n, err := node.New(node.Config{
		Engine:       engine.Config{Journal: journalOf{Journal: memory.New(), closing: closing{&order, "journal"}}},
		CloseJournal: true, Plugins: []kind.Plugin{flowkind.Plugin()},
	})
	if err != nil {
		t.Fatal(err)
	}
	x := executor{closing{&order, "worker"}, make(chan struct{})}
	if err := n.Serve(worker.PoolConfig{Executors: map[string]worker.Executor{"T": x}}); err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := engine.StartRequest{Definition: definition(t, "pawl: 1\nname: f\nsteps: [{name: a, task: {type: T}}]\n")}
	if _, err := n.Engine.Start(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	<-x.began
	for range 2 {
		err = n.Close()
		if want := "worker cannot be closed\njournal cannot be closed"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if want := []string{"attempt", "worker", "journal"}; !slices.Equal(order, want) {
		t.Errorf("closed in the order %v, want %v", order, want)
	}
	late := worker.PoolConfig{Executors: map[string]worker.Executor{"U": x}}
	if err := n.Serve(late); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("workers of a closed node: %v", err)
	}
}

// stubborn is a plugin whose leftovers cannot be ended.
type stubborn struct {
	kind.Plugin
	asked *string // the mark that it was asked to look for
}

func (p stubborn) EndLeftovers(cfg worker.ExecConfig) error {
	*p.asked = cfg.Owner
	return errors.New("they will not die")
}

// TestOpenFails checks that leftovers of a killed process are ended before the first attempt. If they cannot be ended,
// or if somebody else has the journal, nothing starts and nothing is left open.
func TestOpenFails(t *testing.T) {
	for what, c := range map[string]struct {
		mark string
		held bool
		want string
	}{
		"leftovers":    {mark: "m", want: "they will not die"},
		"held":         {held: true, want: "held"},
		"nobody looks": {},
	} {
		asked := ""
		p := stubborn{Plugin: flowkind.Plugin(), asked: &asked}
		var order []string
		n, err := node.New(node.Config{
			Engine:       engine.Config{Journal: journalOf{memory.New(), closing{&order, "journal"}, c.held}},
			CloseJournal: true, Plugins: []kind.Plugin{p}, Processes: worker.ExecConfig{Owner: c.mark},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = n.Open(t.Context())
		if (err != nil) != (c.want != "") || !strings.Contains(fmt.Sprint(err), c.want) || asked != c.mark {
			t.Errorf("%s: %v, want %q; asked to end those of %q", what, err, c.want, asked)
		}
		if err := n.Close(); err == nil || len(order) != 1 {
			t.Errorf("%s: the journal was closed %d times, %v", what, len(order), err)
		}
	}
}

// TestServesATypeOnce checks that a second pool for the same queue and type is refused, because its slots would be
// counted twice.
func TestServesATypeOnce(t *testing.T) {
	n, err := node.New(node.Config{Engine: engine.Config{Journal: memory.New()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	pool := worker.PoolConfig{Executors: map[string]worker.Executor{"noop": worker.Noop{}}, Queues: []string{"q", "r"}}
	if err := n.Serve(pool); err != nil {
		t.Fatal(err)
	}
	var taken *node.TakenError
	pool.Queues = []string{"s", "r"}
	if err := n.Serve(pool); !errors.As(err, &taken) || taken.Queue != "r" || taken.Type != "noop" {
		t.Errorf("%v", err)
	}
	if n.Executes("s", "noop") || !n.Executes("r", "noop") {
		t.Error("workers that were refused serve, or the others do not")
	}
}

func TestNewFails(t *testing.T) {
	var order []string
	j := journalOf{Journal: memory.New(), closing: closing{&order, "journal"}}
	cfg := engine.Config{Journal: j, Kinds: map[string]engine.Kind{"odd": {}}}
	_, err := node.New(node.Config{Engine: cfg, CloseJournal: true})
	if err == nil || !strings.Contains(err.Error(), `Kinds["odd"]`) {
		t.Errorf("%v", err)
	}
	if len(order) != 1 {
		t.Errorf("the journal was closed %d times", len(order))
	}
	if _, err := node.New(node.Config{}); err == nil || !strings.Contains(err.Error(), "Journal is not set") {
		t.Errorf("%v", err)
	}
}

// TestServesAnyQueue checks that workers for every queue are there beside those of a queue, and stop with the node.
func TestServesAnyQueue(t *testing.T) {
	var order []string
	n, err := node.New(node.Config{
		Engine:  engine.Config{Journal: memory.New()},
		Plugins: []kind.Plugin{flowkind.Plugin()},
	})
	if err != nil {
		t.Fatal(err)
	}
	x := executor{closing{&order, "worker"}, make(chan struct{})}
	pool := worker.PoolConfig{Executors: map[string]worker.Executor{"T": x}, Reporter: n.Engine}
	if err := n.ServeAnyQueue(pool); err != nil {
		t.Fatal(err)
	}
	own := worker.PoolConfig{Executors: map[string]worker.Executor{"T": worker.Noop{}}, Queues: []string{"hers"}}
	if err := n.Serve(own); err != nil || n.Executes("his", "T") {
		t.Errorf("a queue of its own: %v; they count as its workers: %v", err, n.Executes("his", "T"))
	}
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	flow := definition(t, "pawl: 1\nname: f\nsteps: [{name: a, task: {type: T, queue: his}}]\n")
	if _, err := n.Engine.Start(t.Context(), engine.StartRequest{Definition: flow}); err != nil {
		t.Fatal(err)
	}
	<-x.began
	if err := n.Close(); err == nil || !slices.Equal(order, []string{"attempt", "worker"}) {
		t.Errorf("%v, ended were %v", err, order)
	}
	if err := n.ServeAnyQueue(pool); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("workers of a closed node: %v", err)
	}
}

// TestServesByOneClock checks that workers measure deadlines by the clock of the engine: one by which these have passed
// would return each attempt as if it had come too late.
func TestServesByOneClock(t *testing.T) {
	behind := func() core.Time { return policy.At(time.Now().Add(-48 * time.Hour)) }
	n, err := node.New(node.Config{
		Engine:  engine.Config{Journal: memory.New(), Now: behind},
		Plugins: []kind.Plugin{flowkind.Plugin()},
	})
	if err != nil {
		t.Fatal(err)
	}
	x := executor{closing{new([]string), "worker"}, make(chan struct{})}
	if err := n.Serve(worker.PoolConfig{Executors: map[string]worker.Executor{"T": x}}); err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	flow := definition(t, "pawl: 1\nname: f\nsteps: [{name: a, task: {type: T}, timeout: 1h}]\n")
	if _, err := n.Engine.Start(t.Context(), engine.StartRequest{Definition: flow}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-x.began:
	case <-time.After(10 * time.Second):
		t.Error("the attempt did not begin")
	}
	if err := n.Close(); err == nil || err.Error() != "worker cannot be closed" {
		t.Error(err)
	}
}

// living is a plugin that notes what happens to it.
type living struct {
	kind.Base
	order *[]string
	fails bool
}

func (p living) Open(e *engine.Engine) error {
	*p.order = append(*p.order, "open")
	if p.fails || e == nil {
		return errors.New("it cannot read what it has stored")
	}
	return nil
}

func (p living) Drain() { *p.order = append(*p.order, "drain") }
func (p living) Close() { *p.order = append(*p.order, "close") }

// TestPluginLives checks that a plugin has the engine before anything runs, is drained before the engine ends, and ends
// after it. If it cannot be opened, there is no node, and the journal is closed.
func TestPluginLives(t *testing.T) {
	var order []string
	cfg := func(fails bool) node.Config {
		return node.Config{
			Engine:       engine.Config{Journal: journalOf{Journal: memory.New(), closing: closing{&order, "journal"}}},
			CloseJournal: true, Plugins: []kind.Plugin{living{order: &order, fails: fails}},
		}
	}
	n, err := node.New(cfg(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err == nil {
		t.Error("the journal's error is lost")
	}
	if want := []string{"open", "drain", "close", "journal"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	order = nil
	if _, err := node.New(cfg(true)); err == nil || !strings.Contains(err.Error(), "what it has stored") {
		t.Errorf("a plugin that cannot be opened: %v", err)
	}
	if !slices.Contains(order, "journal") {
		t.Errorf("%v, and the journal is open", order)
	}
}
