package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/virtual"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/internal/worker"
)

func clockNow() time.Time { return time.Now() }

// machine is an open node with its database; or another process that has one.
type machine struct {
	*engine.Engine                 // nil: it is in another process
	carried        *engine.Carried // nil: all runs, or another process has the engine
	svc            api.Service     // the engine's service, for the commands
	embedded       *service.Embedded
	retention      time.Duration // how long closed runs are kept; 0: for ever
	journal        journal.Journal
	clock          *virtual.Clock      // one that stands; nil: the wall clock
	changes        *service.Changes    // nil: no attempts are executed, or another process has the engine
	webhooks       *webhook.Dispatcher // nil: nobody asks for them
	access         *access.Keeper      // tokens and the audit log; nil: this one serves nothing, or keeps none
	node           *node.Node
	metrics        *metrics.Metrics // nil: nobody reads any
	place          place
	signals        chan os.Signal // signals to stop, received once attempts are executed; nil: none are
	bodies         *lease.Keeper  // leases runs of Go workflows to processes that serve these; nil: nobody may
	queues         *remote.Queues // queues with tasks for other processes; nil: no attempts are executed
	sweeping       context.CancelFunc
	swept          chan struct{}   // closed when nothing sweeps any more; nil: nothing does
	serving        *serving        // the server for other commands; nil: this one executes nothing
	remote         *httpapi.Client // a client of the process that has the engine; nil: this one has it

	sharing    *sharing            // the part that is shared with other nodes; nil: this process has all partitions
	namespaces map[string]*machine // the namespaces beside the default one
	lost       chan error          // the end of the engine of one of them
}

// drainWithin is how long tasks may take to reach the workers that have asked for them, when the engine closes.
const drainWithin = time.Second

// closeWithin is how long attempts that are left behind may take to stop.
const closeWithin = 30 * time.Second

// start opens the database and a node on it. With work set, attempts are executed; without, operations are applied and
// everything else waits until a process executes attempts again. Where another process has the engine, a server or one
// that holds the database, the machine stands for that one, which does all the work.
//
// The families of carried go on, and those of runs that are started; all others rest.
func (a *app) start(ctx context.Context, work bool, carried ...core.RunID) (*machine, error) {
	if a.server != "" {
		c, err := a.connect()
		if err != nil {
			return nil, err
		}
		return a.through(ctx, &machine{svc: c, remote: c}, work, carried)
	}
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	j, c, err := p.openOrJoin(ctx)
	for c != nil && err == nil {
		var m *machine
		if m, err = a.through(ctx, &machine{svc: c, remote: c, place: p}, work, carried); !unanswered(err) {
			a.clock = c.Now
			return m, err
		}
		a.joined = false // that process has ended meanwhile, and to carry a run on can be asked for again
		j, c, err = p.openOrJoin(ctx)
	}
	if err != nil {
		return nil, err
	}
	m, err := a.assemble(p, j, work, carried)
	if err != nil {
		return nil, err
	}
	if err := a.open(ctx, m, work); err != nil {
		return nil, errors.Join(besideNodes(ctx, j, err), m.close())
	}
	return m, nil
}

// assemble makes a node on an open database, which does nothing yet. If it fails, it closes the database.
func (a *app) assemble(p place, j journal.Journal, work bool, carried []core.RunID) (*machine, error) {
	secrets, err := a.secretStore()
	if err == nil && a.slots < 0 {
		err = usage("--processes is at least 1, not %d", a.slots)
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	retention, err := a.retentionOf(work)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	var clock *virtual.Clock
	instant, source := now, (func() core.Time)(nil)
	if a.virtual {
		if clock, err = virtual.Of(context.Background(), j, now()); err != nil {
			return nil, errors.Join(err, j.Close())
		}
		instant, source = clock.Now, clock.Now
	}
	families := engine.NewCarried(carried...)
	var counts *metrics.Metrics
	var observer engine.Observer
	if a.folder != nil { // a server carries on all that it has, and is asked how it is doing
		families, counts = nil, a.metricsOf(p)
		observer = counts.Observer()
		if err := a.trace(); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	if a.tracer != nil {
		observer = a.tracer.Observer(observer)
	}
	cfg := engine.Config{
		Journal: j, Owner: fmt.Sprintf("pid %d", os.Getpid()), Log: a.serverLog(),
		Now: source, Carried: families, Observer: observer, Retention: retention,
		Kinds: map[string]engine.Kind{journal.KindGo: {Compile: operatedHere}},
	}
	keeper, err := a.bodiesOf(j, &cfg, instant)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	shared := a.sharing.in(p.namespace)
	if shared != nil {
		if err := shared.Configure(&cfg); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	n, err := node.New(node.Config{
		Engine: cfg, CloseJournal: true, Plugins: []kind.Plugin{a.flows.Plugin()},
		Processes:   a.executing(p, secrets),
		CloseWithin: closeWithin,
	})
	if err != nil {
		return nil, err
	}
	m := &machine{
		Engine: n.Engine, carried: families, metrics: counts, node: n, place: p, journal: j, retention: retention,
		embedded: service.NewEmbedded(n.Engine, a.readServed(keeper), instant), clock: clock, bodies: keeper,
	}
	if keeper != nil {
		keeper.Attach(n.Engine)
		m.embedded.KnowProblems(keeper.Problems)
	}
	m.svc = m.embedded
	if m.sharing = shared; m.sharing != nil {
		m.svc = m.sharing.Service(m.embedded, m.Engine)
	}
	return m, nil
}

// executing returns the configuration of the processes of steps.
func (a *app) executing(p place, secrets *secret.Store) worker.ExecConfig {
	c := worker.ExecConfig{LogDir: p.logDir(), Owner: p.owner(), Secrets: secrets}
	if a.guard != nil {
		c.Log = a.guard.log
	}
	if a.tracer != nil {
		c.Trace = a.tracer.Parent
	}
	return c
}

// serverLog returns the log of a server. Other commands tell people by themselves what they have to know.
func (a *app) serverLog() *slog.Logger {
	if a.guard == nil {
		return slog.New(slog.DiscardHandler)
	}
	return a.guard.log
}

// open starts what a machine does. If it fails, the machine has to be closed.
func (a *app) open(ctx context.Context, m *machine, work bool) error {
	var err error
	if work {
		slots := map[string]int{"exec": a.processes()}
		executors := m.node.Executors()
		pool := worker.PoolConfig{Executors: executors, Slots: slots}
		if m.clock != nil {
			pool.Now, pool.Stands = m.clock.Now, true
		}
		err = m.node.Serve(pool)
		queues := remote.Config{
			Engine: m.Engine, Run: m.svc.Run, Now: m.now, Stands: m.clock != nil,
			Own: slices.AppendSeq(body.OwnTypes(), maps.Keys(executors)),
		}
		if a.tracer != nil {
			queues.Trace = a.tracer.Parent
		}
		m.queues = remote.New(queues)
		m.ServeRemote("", m.queues)
		if m.bodies != nil {
			m.ServePlaced("", m.bodies)
		}
		m.signals = listen()
	}
	if err == nil {
		err = m.node.Open(ctx)
	}
	if err == nil && work {
		m.webhooks, err = a.openWebhooks(ctx, m)
	}
	if err != nil {
		return err
	}
	if work {
		m.changes = m.embedded.Changes(m.Engine, a.webhookLog())
		a.serve(m)
	}
	if m.retention > 0 {
		m.sweep(m.retention)
	}
	return nil
}

// failing returns why not all runs are carried on that this process should carry on; nil: they are.
func (m *machine) failing() error {
	if err := m.Engine.Err(); err != nil || m.sharing == nil {
		return err
	}
	return m.sharing.Failing()
}

// now returns the instant that the clock of the runs shows.
func (m *machine) now() core.Time {
	if m.clock != nil {
		return m.clock.Now()
	}
	return now()
}

// processes returns how many processes of steps this command runs at once.
func (a *app) processes() int {
	if a.slots == 0 {
		return worker.DefaultProcesses()
	}
	return a.slots
}

// sweep removes logs of runs that the engine has removed, until the machine closes.
func (m *machine) sweep(retention time.Duration) {
	var ctx context.Context
	ctx, m.sweeping = context.WithCancel(context.Background())
	m.swept = make(chan struct{})
	go func() {
		defer close(m.swept)
		m.pruner().sweepLogs(ctx, retention)
	}()
}

// close stops what executes, then the engine, then the journal. Interrupted attempts are repeated when the
// runs are carried on. The socket goes first: a command that finds it gone, and the database held, waits a little.
func (m *machine) close() error {
	if m.remote != nil {
		m.remote.Close()
		return nil
	}
	if m.signals != nil {
		signal.Stop(m.signals)
	}
	if m.sweeping != nil {
		m.sweeping()
		<-m.swept
	}
	var err error
	if m.sharing != nil {
		err = m.sharing.Stop()
	}
	m.drainBodies()
	if m.queues != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
		m.queues.Drain(ctx)
		cancel()
	}
	if m.serving != nil {
		err = errors.Join(err, m.serving.stop())
	}
	for name, other := range m.namespaces {
		if ended := other.close(); ended != nil {
			err = errors.Join(err, fmt.Errorf("the namespace %s: %w", name, ended))
		}
	}
	if m.access != nil { // nobody asks for anything any more, and the journal is open
		err = errors.Join(err, m.access.Close())
	}
	if m.changes != nil {
		m.changes.Close()
	}
	if m.webhooks != nil {
		m.webhooks.Close()
	}
	err = errors.Join(err, m.node.Close())
	if m.queues != nil {
		m.queues.Close()
	}
	return err
}

// stalled returns why no work is taken at present; "" while work is taken.
func (m *machine) stalled() string {
	text := m.Stats().Stalled
	if text == "" {
		return ""
	}
	switch err := m.Err(); {
	case err == nil:
		return ""
	case errors.Is(err, journal.ErrFull):
		return "no space left for " + m.place.name()
	case errors.Is(err, journal.ErrReadOnly):
		return m.place.name() + " cannot be written"
	default:
		return text
	}
}

// owner marks the processes of this database's steps, so that the next process that opens it ends those which outlive
// this one.
func (p place) owner() string {
	if p.memory || p.server != "" {
		return "" // they cannot be tried again, or another process that is alive may have started them
	}
	return worker.OwnerOf(p.path)
}

// operatedHere stands for a Go function of another program, whose runs are operated on here.
func operatedHere(journal.Definition) (*core.Definition, error) {
	return &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return nil }, HasBody: true, HandlesCancel: true,
		Elsewhere: true,
	}, nil
}

// needsProgram returns the error for a run of a Go function: this command cannot carry it on.
func needsProgram(d journal.Definition) error {
	return fmt.Errorf("workflow %q is a Go program's: only that program carries its runs on", d.Name)
}
