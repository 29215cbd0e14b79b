package lease_test

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// bed is a server without HTTP: an engine whose bodies are in processes of their own.
type bed struct {
	*testing.T
	pawl.Client
	journal *memory.Journal
	keeper  atomic.Pointer[lease.Keeper] // nil: the server is down
	node    *node.Node
	svc     *service.Embedded
	late    sync.WaitGroup // requests that come a second time
}

// runs is what a client asks.
type runs struct {
	*service.Embedded
	bed *bed
}

func (r runs) Update(ctx context.Context, run string, u api.Update) (api.Answer, error) {
	return lease.Updates{
		Keeper: r.bed.keeper.Load(), State: r.bed.node.Engine.UpdateState,
		Find: func(_ context.Context, name string) (core.RunID, error) { return core.ParseRunID(name) },
	}.Update(ctx, run, u)
}

func (r runs) StartNamed(ctx context.Context, workflow string, req api.StartRequest) (api.Started, error) {
	d, err := r.bed.keeper.Load().Find(workflow)
	if err != nil {
		return api.Started{}, err
	}
	req.Definition = api.Definition{ID: d.ID.String(), Kind: d.Kind, Name: d.Name, Source: string(d.Source)}
	return r.bed.svc.Start(ctx, req)
}

func now() core.Time { return policy.At(time.Now()) }

func newBed(t *testing.T) *bed {
	b := &bed{T: t, journal: memory.New()}
	b.open()
	return b
}

// open starts the server.
func (b *bed) open() {
	b.Helper()
	b.start()
	b.take()
}

// start starts the server, which has no runs yet.
func (b *bed) start() {
	b.Helper()
	k := lease.NewKeeper(lease.KeeperConfig{Documents: b.journal, Now: now})
	n, err := node.New(node.Config{Engine: engine.Config{
		Journal: b.journal, Log: slog.New(slog.DiscardHandler), Kinds: map[string]engine.Kind{journal.KindGo: {
			Compile: k.Compile, Bodies: k,
			Child: kind.Children(func(_ core.DefinitionID, name string) (journal.Definition, error) {
				return k.Find(name)
			}),
		}},
	}})
	if err == nil {
		k.Attach(n.Engine)
		n.Engine.ServePlaced("", k)
		err = k.Load(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.node = n
	b.svc = service.NewEmbedded(n.Engine, func(journal.Definition) (*service.Prepared, error) {
		return &service.Prepared{
			Definition: &core.Definition{HasBody: true},
			Begin:      func(input []byte) (core.Start, error) { return core.Start{Input: input}, nil },
		}, nil
	}, now)
	b.svc.KnowProblems(k.Problems)
	b.Client = served.Connect(runs{b.svc, b}, pawl.Config{}).(pawl.Client)
	b.keeper.Store(k)
}

// take lets the server have the runs.
func (b *bed) take() {
	b.Helper()
	if err := b.node.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// close stops the server.
func (b *bed) close() {
	k := b.keeper.Swap(nil)
	k.Drain()
	if err := b.node.Close(); err != nil {
		b.Error(err)
	}
	b.late.Wait()
}

// line is what is between a process and the server. With chance it loses requests and answers, delays them, and brings
// some of them twice, the second time late.
type line struct {
	bed    *bed
	cut    atomic.Bool
	mu     sync.Mutex
	chance *rand.Rand    // nil: it does its work
	late   chan struct{} // nil: news come at once, else when it is closed
}

// hold keeps news back until release is called.
func (l *line) hold() (release func()) {
	late := make(chan struct{})
	set := func(c chan struct{}) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.late = c
	}
	set(late)
	return func() {
		set(nil)
		close(late)
	}
}

// wait waits while news are kept back.
func (l *line) wait() {
	l.mu.Lock()
	late := l.late
	l.mu.Unlock()
	if late != nil {
		<-late
	}
}

func (l *line) one(of int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chance != nil && l.chance.IntN(of) == 0
}

func (l *line) pause() {
	if l.chance == nil {
		return // a timer that is due at once can end the race detector of Go 1.26 in a bubble
	}
	l.mu.Lock()
	d := time.Duration(1+l.chance.IntN(20)) * time.Millisecond
	l.mu.Unlock()
	<-time.After(d)
}

// through makes a request over a line.
func through[T any](ctx context.Context, l *line, ask func(context.Context, *lease.Keeper) (T, error)) (T, error) {
	var none T
	lost := &api.Error{Code: api.CodeUncertain, Message: "the line is broken"}
	l.pause()
	k := l.bed.keeper.Load()
	if k == nil || l.cut.Load() || l.one(10) {
		return none, lost
	}
	if l.one(8) {
		l.bed.late.Go(func() {
			<-time.After(time.Second)
			_, _ = ask(context.WithoutCancel(ctx), k)
		})
	}
	out, err := ask(ctx, k)
	l.pause()
	if l.cut.Load() || l.one(10) {
		return none, lost
	}
	return out, err
}

func (l *line) JoinBodies(ctx context.Context, r api.BodiesJoin) error {
	_, err := through(ctx, l, func(ctx context.Context, k *lease.Keeper) (struct{}, error) {
		return struct{}{}, k.JoinBodies(ctx, r)
	})
	return err
}

func (l *line) BodiesNodes(ctx context.Context, r api.BodiesNodesRequest) (api.BodiesNodes, error) {
	return through(ctx, l, func(ctx context.Context, k *lease.Keeper) (api.BodiesNodes, error) {
		return k.BodiesNodes(ctx, r)
	})
}

func (l *line) TakeNews(ctx context.Context, r api.NewsRequest) (api.News, error) {
	return through(ctx, l, func(ctx context.Context, k *lease.Keeper) (api.News, error) {
		defer l.wait()
		return k.TakeNews(ctx, r)
	})
}

func (l *line) GiveDecisions(ctx context.Context, r api.Decisions) (api.DecisionAnswers, error) {
	return through(ctx, l, func(ctx context.Context, k *lease.Keeper) (api.DecisionAnswers, error) {
		return k.GiveDecisions(ctx, r)
	})
}

// nodeList has lines to the nodes of a cluster, which come and go.
type nodeList struct {
	mu      sync.Mutex
	lines   map[string]*line
	changed chan struct{}
}

func newNodeList() *nodeList {
	return &nodeList{lines: map[string]*line{}, changed: make(chan struct{})}
}

func (n *nodeList) put(name string, l *line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines[name] = l
	n.change()
}

func (n *nodeList) remove(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.lines, name)
	n.change()
}

func (n *nodeList) change() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// line returns the line to a node. One to a node that has gone is cut.
func (n *nodeList) line(name string) *line {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.lines[name]; l != nil {
		return l
	}
	l := &line{bed: &bed{}}
	l.cut.Store(true)
	return l
}

func (n *nodeList) JoinBodies(ctx context.Context, r api.BodiesJoin) error {
	return n.line(r.Node).JoinBodies(ctx, r)
}

func (n *nodeList) TakeNews(ctx context.Context, r api.NewsRequest) (api.News, error) {
	return n.line(r.Node).TakeNews(ctx, r)
}

func (n *nodeList) GiveDecisions(ctx context.Context, r api.Decisions) (api.DecisionAnswers, error) {
	return n.line(r.Node).GiveDecisions(ctx, r)
}

func (n *nodeList) BodiesNodes(ctx context.Context, r api.BodiesNodesRequest) (api.BodiesNodes, error) {
	for {
		n.mu.Lock()
		names, changed := slices.Sorted(maps.Keys(n.lines)), n.changed
		n.mu.Unlock()
		if len(names) > 0 && !slices.Equal(names, r.Known) {
			return api.BodiesNodes{Nodes: names}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return api.BodiesNodes{}, ctx.Err()
		}
	}
}

// process is one that serves workflows.
type process struct {
	*line
	stop  context.CancelFunc
	ended chan error
}

// serve starts a process. Its line is bad if there is a chance.
func (b *bed) serve(chance *rand.Rand, workflows ...pawl.Definition) *process {
	b.Helper()
	l := &line{bed: b, chance: chance}
	return b.serveAt(l, l, workflows...)
}

// serveAt starts a process with a server of its own.
func (b *bed) serveAt(server api.Bodies, l *line, workflows ...pawl.Definition) *process {
	b.Helper()
	return b.serveWith(server, l, pawl.Config{Workflows: workflows})
}

// serveWith starts a process with a configuration.
func (b *bed) serveWith(server api.Bodies, l *line, cfg pawl.Config) *process {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	cfg.Log = slog.New(slog.DiscardHandler)
	program, unwind, err := served.Serving(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	p := &process{l, stop, make(chan error, 1)}
	h := lease.NewHolder(lease.HolderConfig{Server: server, Name: "p", Program: program, DrainWithin: time.Minute})
	go func() {
		err := h.Run(ctx)
		unwind()
		p.ended <- err
	}()
	return p
}

// end lets a process end, and waits for that.
func (p *process) end() {
	p.bed.Helper()
	p.stop()
	if err := <-p.ended; err != nil {
		p.bed.Error(err)
	}
}
