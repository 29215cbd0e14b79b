package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/caller"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/minutes"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// closeWithin is how long attempts that are left behind may take to stop.
const closeWithin = 30 * time.Second

// Daemon is a server. One goroutine opens it, makes it listen, adds namespaces and closes it; all other methods are
// safe for concurrent use meanwhile.
type Daemon struct {
	cfg     Config
	engine  *engine.Engine // nil: a Go program has one that it does not share
	node    *node.Node     // nil: a Go program has its own
	program *Program       // nil: the daemon has a node

	svc      api.Service
	routed   *service.Routed   // svc as one of several nodes; nil: the daemon is alone
	embedded *service.Embedded // svc for the runs of this process

	bodies   *lease.Keeper       // leases runs to processes that serve their workflows; nil if it has none
	waits    waits               // the attempts that wait until somebody acts
	queues   *remote.Queues      // tasks for workers in other processes; nil: no attempts are executed
	changes  *service.Changes    // nil: no attempts are executed
	webhooks *webhook.Dispatcher // nil: no attempts are executed
	minutes  *minutes.Counter    // nil: no attempts are executed
	access   *access.Keeper      // nil: nobody is served
	server   *server.Server      // nil: nobody is served
	// schedules keeps those of the folder's flows; nil: there are none.
	schedules *scheduled.Keeper

	listening  []listening
	ended      chan error         // the ends of listeners and of namespaces
	namespaces map[string]*Daemon // those beside the default one
	keeping    context.CancelFunc
	kept       sync.WaitGroup // ends when nothing stores figures and tells what needs a person
	sweeping   context.CancelFunc
	swept      chan struct{} // closed when no sweep runs any longer; nil if there are none
}

// New makes a daemon with a node on an open database, which does nothing yet. If it fails, it closes the database.
func New(cfg Config) (*Daemon, error) {
	d := newDaemon(cfg)
	engineConfig := engine.Config{
		Journal: cfg.Journal, Owner: cfg.Owner, Log: d.cfg.Log, Carried: cfg.Carried, Observer: cfg.Observer,
		Retention: cfg.Retention, Kinds: map[string]engine.Kind{journal.KindGo: {Compile: operatedHere}},
	}
	if cfg.Clock != nil {
		engineConfig.Now = cfg.Clock.Now
	}
	if cfg.Work {
		d.countMinutes()
		engineConfig.Observer = d.minutes.Observer(cfg.Observer)
	}
	if cfg.Cluster != nil {
		if err := cfg.Cluster.Node.Configure(&engineConfig); err != nil {
			return nil, errors.Join(err, cfg.Journal.Close())
		}
	}
	processes := cfg.Processes
	if cfg.Paths != nil {
		processes.LogDir, processes.Owner = cfg.Paths.LogDir(), cfg.Paths.Owner()
	}
	if cfg.Callers != nil {
		of := func(top core.RunID) *caller.Caller { return cfg.Callers.Of(cfg.Carried.For(top)) }
		processes.Callers = &worker.Callers{Find: of, Dir: processes.LogDir}
	}
	var err error
	d.node, err = node.New(node.Config{
		Engine: engineConfig, CloseJournal: true, Plugins: d.plugins(), Processes: processes, CloseWithin: closeWithin,
	})
	if err != nil {
		return nil, err
	}
	d.engine = d.node.Engine
	d.embedded = service.NewEmbedded(d.engine, d.read, d.now)
	if d.bodies != nil {
		d.embedded.KnowProblems(d.bodies.Problems)
	}
	if cfg.Carried != nil {
		d.embedded.KnowResting(func(_ context.Context, _ core.RunID, top func() core.RunID) bool {
			return !cfg.Carried.Has(top())
		})
	}
	d.embedded.KnowWorkers(d.hasNoWorker, d.waitsForSomebody)
	d.embedded.KnowLines(d.engine.Line)
	d.svc = d.embedded
	d.route()
	return d, nil
}

// Over makes the daemon of an engine that a Go program has opened.
func Over(p Program, cfg Config) *Daemon {
	d := newDaemon(cfg)
	d.program, d.svc, d.engine, d.embedded = &p, p.Service, p.Engine, p.Own
	d.route()
	if d.routed != nil {
		d.routed.For(p.Service)
	}
	d.server = server.New(d.serverConfig())
	return d
}

func newDaemon(cfg Config) *Daemon {
	return &Daemon{cfg: cfg, ended: make(chan error, 1), namespaces: map[string]*Daemon{}}
}

// route makes the service cover all nodes.
func (d *Daemon) route() {
	if d.cfg.Cluster != nil {
		d.routed = d.cfg.Cluster.Node.Service(d.embedded, d.engine)
		d.svc = d.routed
	}
}

// Service returns what callers do with the runs of this daemon, or of all nodes.
func (d *Daemon) Service() api.Service { return d.svc }

// Routed returns the service of the runs of all nodes; nil: the daemon is alone.
func (d *Daemon) Routed() *service.Routed { return d.routed }

// Node returns what carries the runs on; nil: a Go program does.
func (d *Daemon) Node() *node.Node { return d.node }

// Access returns the tokens and the audit log, or nil if the daemon serves no callers.
func (d *Daemon) Access() *access.Keeper { return d.access }

// Done returns a channel that is closed when the engine has ended, on its own or because the daemon was closed.
func (d *Daemon) Done() <-chan struct{} { return d.engine.Done() }

// Err returns why the engine has ended, or nil if it has not, or was closed.
func (d *Daemon) Err() error { return d.engine.Err() }

// Stalled returns why no work is taken at present; "" while work is taken.
func (d *Daemon) Stalled() string {
	text := d.engine.Stats().Stalled
	if text == "" {
		return ""
	}
	switch err := d.engine.Err(); {
	case err == nil:
		return ""
	case errors.Is(err, journal.ErrFull):
		return "no space left for " + d.cfg.Paths.Name()
	case errors.Is(err, journal.ErrReadOnly):
		return d.cfg.Paths.Name() + " cannot be written"
	default:
		return text
	}
}

// failing returns why not all runs are carried on that this process should carry on, or nil if they are.
func (d *Daemon) failing() error {
	if err := d.engine.Err(); err != nil || d.cfg.Cluster == nil {
		return err
	}
	return d.cfg.Cluster.Node.Failing()
}

// stats returns what the engine counts. What keeps callers from answers counts as a stall, also where no partition of
// this process knows of it: it may have none.
func (d *Daemon) stats() engine.Stats {
	s := d.engine.Stats()
	if s.Stalled == "" {
		if err := d.failing(); err != nil {
			s.Stalled = err.Error()
		}
	}
	return s
}

// now returns the instant that the clock of the runs shows.
func (d *Daemon) now() core.Time {
	if d.cfg.Clock != nil {
		return d.cfg.Clock.Now()
	}
	return wallNow()
}

func wallNow() core.Time { return policy.At(time.Now()) }

// Carry makes the daemon carry a run on, with its family, for the caller in ctx. With keep the family stays for whoever
// it is carried on for already.
func (d *Daemon) Carry(ctx context.Context, run string, keep bool) error {
	top, err := d.topOf(ctx, run)
	if err != nil {
		return err
	}
	if keep && d.cfg.Carried.Has(top) {
		return nil
	}
	d.cfg.Carried.AddFor(top, caller.From(ctx))
	d.engine.Rematch()
	return nil
}

// topOf returns the top of a run's family.
func (d *Daemon) topOf(ctx context.Context, run string) (core.RunID, error) {
	r, err := d.svc.Run(ctx, run)
	if err != nil {
		return core.RunID{}, err
	}
	return service.TopOf(ctx, d.svc, r)
}

// operatedHere represents a Go function of another program, whose runs are operated on here.
func operatedHere(journal.Definition) (*core.Definition, error) {
	return &core.Definition{
		NewDecider: func(*core.Run) core.Decider { return nil }, HasBody: true, HandlesCancel: true,
		Elsewhere: true,
	}, nil
}
