package conformance

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/policy"
)

// TestGoServed runs the rows of Go workflows again: a server keeps the runs, and pawlhttp.Serve has the bodies.
func TestGoServed(t *testing.T) {
	before, ever := goEnv, forEver
	t.Cleanup(func() { goEnv, forEver = before, ever })
	goEnv, forEver = servedEnv, shortEver
	eachGoRow(t)
}

// servedProgram is a program that serves its workflows and handlers to a server.
type servedProgram struct {
	*pawlhttp.Client
	t        *testing.T
	database string

	node     *node.Node
	keeper   *lease.Keeper
	queues   *remote.Queues
	server   *server.Server
	served   chan error
	listener *memnet.Listener

	workflows []pawl.Definition
	calls     []pawlhttp.Worker // the workers of the queues that are served
	stop      context.CancelFunc
	ended     []chan error // the ends of the bodies, and of each worker
}

// servedEnv runs a test in virtual time against a server, which has a database in goDatabase, and a program that serves
// the workflows to it.
func servedEnv(t *testing.T, test func(t *testing.T, e goProgram), workflows ...pawl.Definition) {
	t.Helper()
	database := goDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		p := &servedProgram{t: t, database: database, workflows: workflows}
		p.open()
		defer p.close()
		test(t, p)
	})
}

// open starts the server, and then the program.
func (p *servedProgram) open() {
	p.t.Helper()
	p.startServer()
	through := &http.Transport{DialContext: p.listener.Dial}
	c, err := pawlhttp.Connect("http://127.0.0.1:7295", pawlhttp.ClientConfig{Transport: through})
	if err != nil {
		p.t.Fatal(err)
	}
	p.Client = c
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.WithoutCancel(p.t.Context()))
	p.run(func() error {
		return pawlhttp.Serve(ctx, "http://127.0.0.1:7295", pawlhttp.ServeConfig{
			Transport: through, DrainWithin: time.Microsecond,
			Workflows: p.workflows, Log: slog.New(slog.DiscardHandler),
		})
	})
	for _, w := range p.calls {
		p.work(ctx, w)
	}
	synctest.Wait() // it has joined
}

// run makes the program do something until it ends.
func (p *servedProgram) run(do func() error) {
	ended := make(chan error, 1)
	p.ended = append(p.ended, ended)
	go func() { ended <- do() }()
}

func (p *servedProgram) work(ctx context.Context, w pawlhttp.Worker) {
	w.Server, w.DrainWithin = "http://127.0.0.1:7295", time.Microsecond
	w.Transport = &http.Transport{DialContext: p.listener.Dial}
	p.run(func() error { return w.Run(ctx) })
}

// startServer starts what pawl server is made of.
func (p *servedProgram) startServer() {
	p.t.Helper()
	now := func() core.Time { return policy.At(time.Now()) }
	j, err := journal.Open(p.t.Context(), p.database)
	if err != nil {
		p.t.Fatal(err)
	}
	p.keeper = lease.NewKeeper(lease.KeeperConfig{Documents: j.(journal.Documents), Now: now})
	p.node, err = node.New(node.Config{CloseJournal: true, Engine: engine.Config{
		Journal: j, Log: slog.New(slog.DiscardHandler), Kinds: map[string]engine.Kind{journal.KindGo: {
			Compile: p.keeper.Compile, Bodies: p.keeper,
			Child: kind.Children(func(_ core.DefinitionID, name string) (journal.Definition, error) {
				return p.keeper.Find(name)
			}),
		}},
	}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.keeper.Attach(p.node.Engine)
	svc := service.NewEmbedded(p.node.Engine, func(journal.Definition) (*service.Prepared, error) {
		return &service.Prepared{
			Definition: &core.Definition{HasBody: true},
			Begin:      func(input []byte) (core.Start, error) { return core.Start{Input: input}, nil },
			Rerun:      body.Rerun,
		}, nil
	}, now)
	svc.KnowProblems(p.keeper.Problems)
	p.queues = remote.New(remote.Config{Engine: p.node.Engine, Run: svc.Run, Now: now, Own: body.OwnTypes()})
	p.node.Engine.ServeRemote("", p.queues)
	p.node.Engine.ServePlaced("", p.keeper)
	if err := errors.Join(p.keeper.Load(p.t.Context()), p.node.Open(p.t.Context())); err != nil {
		p.t.Fatal(err)
	}
	p.server = server.New(server.Config{
		Service: svc, Tasks: p.queues, Bodies: p.keeper, Flows: servedFlows{p.keeper},
		Updates: lease.Updates{Keeper: p.keeper, State: p.node.Engine.UpdateState},
	})
	p.listener, p.served = memnet.Listen(), make(chan error, 1)
	go func() { p.served <- p.server.Serve(p.listener) }()
}

// close ends the program, and then the server.
func (p *servedProgram) close() {
	p.stop()
	for _, ended := range p.ended {
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	}
	p.ended = nil
	_ = p.Client.Close() // the next one asks the next server
	p.keeper.Drain()
	p.queues.Drain(context.Background())
	err := errors.Join(p.server.Close(), <-p.served, p.node.Close())
	p.queues.Close()
	if err != nil {
		p.t.Error(err)
	}
}

func (p *servedProgram) Skip(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (p *servedProgram) Restart(workflows ...pawl.Definition) {
	p.t.Helper()
	p.close()
	if workflows != nil {
		p.workflows = workflows
	}
	p.open()
}

func (p *servedProgram) Serve(queue string, slots int, handlers ...pawl.AnyHandler) error {
	w := pawlhttp.Worker{Queue: queue, Slots: slots, Handlers: handlers}
	p.calls = append(p.calls, w)
	ctx, cancel := context.WithCancel(p.t.Context())
	stop := p.stop
	p.stop = func() { cancel(); stop() }
	p.work(ctx, w)
	return nil
}

func (p *servedProgram) Step(run, step string) client.StepDescription {
	p.t.Helper()
	d, err := p.DescribeRun(p.t.Context(), run)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range d.Steps {
		if s.Name == step {
			return s
		}
	}
	p.t.Fatalf("run %s has no step %q: %+v", run, step, d.Steps)
	return client.StepDescription{}
}

func (p *servedProgram) WantPhase(run string, phase client.Phase) {
	p.t.Helper()
	if d, err := p.DescribeRun(p.t.Context(), run); err != nil || d.Phase != phase {
		p.t.Errorf("run %s is %s, want %s; %v", run, d.Phase, phase, err)
	}
}

func (p *servedProgram) WantAttempts(run, step string, n int) {
	p.t.Helper()
	if s := p.Step(run, step); s.Attempts != n {
		p.t.Errorf("step %q of run %s has had %d attempts, want %d", step, run, s.Attempts, n)
	}
}

func (p *servedProgram) WantDeadline(run, step string, after time.Duration) {
	p.t.Helper()
	s := p.Step(run, step)
	if got := s.Deadline.Sub(s.Scheduled); s.Deadline.IsZero() || got != after {
		p.t.Errorf("step %q of run %s has its deadline %s after its scheduling (%s), want %s",
			step, run, got, s.Deadline, after)
	}
}

func (p *servedProgram) WantStuck(run, in string) {
	p.t.Helper()
	if d, err := p.DescribeRun(p.t.Context(), run); err != nil || !strings.Contains(d.Problem, in) {
		p.t.Errorf("the problem does not say where: %q, %v", d.Problem, err)
	}
}

// servedFlows are the workflows that programs serve to a server.
type servedFlows struct{ keeper *lease.Keeper }

func (f servedFlows) List(context.Context) ([]api.Flow, error) { return nil, nil }

func (f servedFlows) Find(_ context.Context, name string) (api.Definition, error) {
	d, err := f.keeper.Find(name)
	return api.Definition{ID: d.ID.String(), Kind: d.Kind, Name: d.Name, Source: string(d.Source)}, err
}

func (f servedFlows) Read(context.Context, string) (api.Definition, error) {
	return api.Definition{}, errors.New("this server has no flows")
}

func (f servedFlows) Check(context.Context, string) (api.CheckedFlow, error) {
	return api.CheckedFlow{}, errors.New("this server has no flows")
}
