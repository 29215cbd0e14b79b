package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/plugged"
	"github.com/pawl-dev/pawl/internal/relay"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// Config configures an engine. One of Database and Journal is needed; other zero values are useful.
type Config struct {
	// Database names where runs are kept: "sqlite:shop.db", "postgres://pawl@db.example/shop", "memory:". The scheme's
	// package must be imported, as with database/sql: _ "github.com/pawl-dev/pawl/journal/sqlite".
	Database string
	// Journal is a journal that is open already, instead of Database: what New of journal/memory, Open of
	// journal/sqlite or Open of journal/postgres returned. The engine does not close it, and cannot end the processes
	// of flows' steps that outlive a killed program: with a SQLite file as Database they are ended before any step runs
	// again.
	Journal journal.Journal
	// Workflows are known from the start, so that open runs of theirs go on.
	Workflows []Definition
	Codec     Codec // default JSON
	// MaxPayload bounds an input, a result or an event, in bytes. Default 2 MiB.
	MaxPayload int
	// Concurrency bounds the local steps that run at once. Default 1000.
	Concurrency int
	// Queues and Services limit what the steps of all runs share: a queue ([Queue], and `queue` in flow files) or a
	// service ([Service], `service`), by its name. They replace what a flow file says about the same name. They are
	// counted in each process. A step that is held back waits; its limits and deadlines go on meanwhile. As long as
	// a local step names a queue, keep the queue here: without limits, it has QueueLimits{}.
	Queues, Services map[string]policy.QueueLimits
	// TaskTimeout is the task limit of workflows that have none: how long a body may take outside of its steps.
	// Default 10s, at most 2m.
	TaskTimeout time.Duration
	// Grace is how long a step's function may take to return after its context is done, before it is abandoned and its
	// next attempt may begin. Default 5s.
	Grace time.Duration
	// Retention is how long closed runs are kept. A run's result and its idempotency key are deleted with it; a chain's
	// key with the last run of the chain. A start that is repeated after that makes another run. Default: for ever.
	Retention time.Duration
	Observer  Observer // zero: nobody is told
	// Intercept runs around the functions of steps, hooks and handlers, and around flows' steps with exec and http: for
	// traces, or to replace them in tests.
	Intercept Interceptor
	// Secrets finds the secrets that flows name, each time a step refers to one: ${{ secrets.NAME }}. The value goes to
	// the step alone; what the step writes or returns is stored without it. Default: there are none.
	Secrets func(ctx context.Context, name string) (string, error)
	// Artifacts is the folder for files that steps of flows keep with their runs. Default: beside a SQLite file, where
	// the command keeps them too, shop.db.artifacts; with another database there is none, and such a step fails. The
	// command removes those of runs that are gone: pawl prune.
	Artifacts string
	// Propagators take what contexts hold along with the runs that are started with them, in this order.
	Propagators []Propagator
	// Cluster makes the engine a node of a cluster: several processes work on one database in PostgreSQL. nil: the
	// engine has its database for itself.
	Cluster Cluster
	Log     *slog.Logger // default slog.Default()
}

// Interceptor runs a step's function, next, or does something else. What it returns is the step's encoded result. If it
// panics after next has returned, the step has what next returned.
type Interceptor func(
	ctx context.Context, a client.AttemptInfo, next func(ctx context.Context) ([]byte, error),
) ([]byte, error)

// Cluster lets the engines of several processes work on one database in PostgreSQL. A Node of package pawlcluster is
// one.
type Cluster interface{ served.Cluster }

// Engine runs workflows. Its methods are safe for concurrent use. It is a [Client] for its runs, and in a cluster for
// those of all nodes.
type Engine struct {
	Client
	own       *local
	serves    served.ProgramEngine // the service of the same runs
	member    served.Member        // nil: the engine is alone
	stopRelay func()               // nil: nothing is relayed
}

// local is what an engine does itself: a client of the runs that are in its hands.
type local struct {
	served.Seal
	engine *engine.Engine
	host   *host
	node   *node.Node

	explained *service.Embedded
}

// Open opens the database and starts to work: open runs of the workflows in the configuration go on at once. The
// context bounds the opening; the engine works until [Engine.Shutdown] or [Engine.Close].
//
// A database has one engine at a time, unless [Config.Cluster] says that several share it. If another one holds it,
// Open waits until that one is gone or the context ends. Then the error is [ErrHeld] and says who holds it. With a
// context that has ended already, Open tries once.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	e, err := openEngine(ctx, cfg)
	return e, api.Spoken(err)
}

func openEngine(ctx context.Context, cfg Config) (*Engine, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := cfg.check(); err != nil {
		return nil, invalid(err, "open")
	}
	cfg = cfg.withDefaults()
	if cfg.Cluster == nil {
		own, j, err := open(ctx, cfg, nil)
		if err != nil {
			return nil, err
		}
		e := &Engine{Client: spoken{own}, own: own, serves: engineService{own.explained, own}}
		e.relay(ctx, cfg, j, nil)
		return e, nil
	}
	member, err := cfg.Cluster.Join(ctx, cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("pawl: open: %w", err)
	}
	own, j, err := open(ctx, cfg, member.Configure)
	if err != nil {
		return nil, errors.Join(err, member.Close())
	}
	serves := engineService{own.explained, own}
	all, err := member.Open(ctx, served.Own{
		Service: serves, Reader: own.explained, Engine: own.engine, Close: own.close,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pawl: open: %w", err), member.Close())
	}
	through := nodes{all, serves}
	e := &Engine{Client: connect(through, cfg).(Client), own: own, serves: through, member: member}
	e.relay(ctx, cfg, j, member.Relays)
	return e, nil
}

// relay begins to deliver what callers write into the journal's database. turn reports whether this engine does so, if
// it is one of several.
func (e *Engine) relay(ctx context.Context, cfg Config, j journal.Journal, turn func() bool) {
	e.stopRelay = relay.Begin(ctx, e, j, relay.Setting{
		MaxPayload: cfg.MaxPayload, Propagators: cfg.Propagators, Log: cfg.Log, Turn: turn,
	})
}

// open opens what an engine does itself. share makes it one of several on its database, which own no partitions at
// first; nil: it is the only one.
func open(ctx context.Context, cfg Config, share func(*engine.Config) error) (*local, journal.Journal, error) {
	j := cfg.Journal
	if j == nil {
		err := whileHeld(ctx, cfg, func() (err error) {
			j, err = journal.Open(ctx, cfg.Database)
			return err
		})
		if err != nil {
			return nil, nil, fmt.Errorf("pawl: open: %w", err)
		}
	}
	h := newHost(ctx, cfg)
	if h.services = cfg.Services; h.services == nil {
		h.services = map[string]policy.QueueLimits{}
	}
	settings := engine.Config{
		Journal: j, Kinds: h.kinds(), MaxPayload: cfg.MaxPayload, Retention: cfg.Retention, Log: cfg.Log,
		Queues: cfg.Queues, Services: cfg.Services, Observer: h.observed(&h.observer),
	}
	if share != nil {
		if err := share(&settings); err != nil {
			h.bodies.Close()
			if cfg.Journal == nil {
				err = errors.Join(err, j.Close())
			}
			return nil, nil, fmt.Errorf("pawl: open: %w", err)
		}
	}
	n, err := node.New(node.Config{
		Engine: settings, CloseJournal: cfg.Journal == nil, Plugins: kind.Plugins(), Registered: h.stored,
		Processes: worker.ExecConfig{
			Owner: ownerOf(cfg.Database), Grace: cfg.Grace, Log: cfg.Log, Secrets: secret.StoreOf(cfg.Secrets),
			Artifacts: artifactsOf(cfg),
		},
		CloseWithin: 2 * cfg.Grace,
	})
	if err != nil {
		return nil, nil, err
	}
	e := &local{engine: n.Engine, host: h, node: n}
	if err := e.begin(ctx, cfg); err != nil {
		return nil, nil, errors.Join(err, e.close())
	}
	e.explained = e.explains()
	return e, j, nil
}

// begin gives the node its workflows and what executes their steps, and starts it.
func (e *local) begin(ctx context.Context, cfg Config) error {
	for _, w := range append([]Definition{scheduleWorkflow()}, cfg.Workflows...) {
		if err := e.Register(w); err != nil {
			return err
		}
	}
	bodies := e.host.bodies
	executors := e.host.documented(e.node.Executors())
	executors[body.TypeLocal], executors[body.TypeHook] = bodies, bodies
	err := e.node.Serve(worker.PoolConfig{
		Executors: executors, Reporter: bodies,
		Slots: map[string]int{body.TypeLocal: cfg.Concurrency, body.TypeHook: cfg.Concurrency},
	})
	if err != nil {
		return err
	}
	bodies.Attach(e.engine)
	e.attachFakes()
	return whileHeld(ctx, cfg, func() error { return e.node.Open(ctx) })
}

// check refuses values that make no sense.
func (c Config) check() error {
	var errs []error
	for name, negative := range map[string]bool{
		"MaxPayload": c.MaxPayload < 0, "Concurrency": c.Concurrency < 0,
		"TaskTimeout": c.TaskTimeout < 0, "Grace": c.Grace < 0,
		"Retention": c.Retention < 0,
	} {
		if negative {
			errs = append(errs, fmt.Errorf("Config.%s is negative: leave it out for the default", name))
		}
	}
	for i, w := range c.Workflows {
		errs = append(errs, wrap(fmt.Sprintf("Config.Workflows[%d]", i), missingDefinition(w)))
	}
	for i, p := range c.Propagators {
		if p == nil {
			errs = append(errs, fmt.Errorf("Config.Propagators[%d] is nil", i))
		}
	}
	for field, v := range map[string]any{"Cluster": c.Cluster, "Journal": c.Journal} {
		if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
			errs = append(errs, fmt.Errorf("Config.%s is a nil %T: leave it out for none", field, v))
		}
	}
	errs = append(errs, checkLimits("Queues", c.Queues), checkLimits("Services", c.Services))
	if c.TaskTimeout > maxTask {
		errs = append(errs, fmt.Errorf("Config.TaskTimeout: %s is more than %s: what takes longer belongs in a step",
			c.TaskTimeout, maxTask))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Codec == nil {
		c.Codec = JSON{}
	}
	if c.MaxPayload <= 0 {
		c.MaxPayload = 2 << 20
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 1000
	}
	if c.TaskTimeout <= 0 {
		c.TaskTimeout = 10 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = plugged.Log(c.Log)
	return c
}

// Register makes workflows known to the engine, so that open runs of theirs go on. Starting a run registers its
// workflow, in a cluster with this node only: the others need it, too. Two definitions of one name are an error.
func (e *Engine) Register(workflows ...Definition) error {
	if e == nil || e.own == nil {
		return errNilClient
	}
	return api.Spoken(e.own.Register(workflows...))
}

func (e *local) Register(workflows ...Definition) error {
	for _, w := range workflows {
		if err := missingDefinition(w); err != nil {
			return invalid(err, "register")
		}
		if err := e.host.register(w.definition()); err != nil {
			return err
		}
	}
	return nil
}

// History returns what is recorded of a run, for [Replay], as JSON: what pawl run history prints. Keep it in a file
// next to the code, to replay it with later versions of the code.
func (e *Engine) History(ctx context.Context, id string) ([]byte, error) {
	if err := usable(ctx, e); err != nil {
		return nil, err
	}
	history, err := e.serves.History(ctx, id)
	return history, api.Spoken(missing(err, "history", id))
}

// Node returns the name of the engine as a node of its cluster, which pawl cluster status shows, and the numbers of the
// partitions that it owns at present. An engine that is alone has no name and owns all.
func (e *Engine) Node() (name string, partitions []int) {
	if e == nil || e.own == nil {
		return "", nil
	}
	if e.member != nil {
		name = e.member.ID()
	}
	return name, e.own.engine.Owned()
}

// Shutdown stops the engine when its work is done: no attempt begins any more, those that run may end, then the engine
// closes. It is how a program ends before a deploy. If the context ends first, Shutdown closes at once, as
// [Engine.Close] does, and returns the context's error. Callers are served until it closes; what they start begins
// after the next Open, or with another node.
func (e *Engine) Shutdown(ctx context.Context) error {
	if err := usable(ctx, e); err != nil {
		return err
	}
	drained := e.own.node.Drain(ctx)
	if err := e.Close(); err != nil || errors.Is(drained, ErrClosed) {
		return err
	}
	return wrap("pawl: shutdown", drained)
}

// Close stops the engine. Running attempts are told to stop. After the next Open they are made again, and runs go on.
// Close waits for writes that are on their way to the disk. In a cluster it hands its partitions over first: their next
// owners make the attempts again.
func (e *Engine) Close() error {
	if e == nil || e.own == nil {
		return errNilClient
	}
	e.stopRelay()
	if e.member != nil {
		return e.member.Close()
	}
	return e.own.close()
}

// close stops what the engine does itself.
func (e *local) close() error {
	e.host.bodies.Close()
	return e.node.Close()
}

// Problem returns what keeps the body of an open run from going on: a *ChangedError, an *UnreadableError, a
// *TaskTimeoutError, or that its workflow is not registered; nil: nothing does. A wait for the run's result also
// returns it when its context ends. Meanwhile no attempt of the run begins, and its body is called again after pauses
// that double from the task limit up to ten minutes. Of a run that another node of the cluster has, the error has the
// same text and another type.
func (e *Engine) Problem(id string) error {
	if e == nil || e.own == nil {
		return errNilClient
	}
	if e.member == nil {
		return e.own.problem(id)
	}
	r, err := e.serves.Run(context.Background(), id)
	if err != nil || r.Problem == "" {
		return err
	}
	if run, err := core.ParseRunID(r.Run); err == nil {
		if problem := e.own.host.bodies.Problem(run); problem != nil {
			return problem
		}
	}
	return errors.New(r.Problem)
}

// problem returns what keeps the body of a run of this engine from going on.
func (e *local) problem(id string) error {
	given, notID := core.ParseRunID(id)
	if problem := e.host.bodies.Problem(given); notID == nil && problem != nil {
		return problem
	}
	run, err := e.engine.Lookup(context.Background(), id)
	if err != nil && notID == nil {
		return nil // there is no such run, so nothing keeps it from going on
	}
	if err != nil {
		return err
	}
	return e.host.bodies.Problem(run)
}

// whileHeld tries to open a database until nobody else holds it, or the context ends.
func whileHeld(ctx context.Context, cfg Config, open func() error) error {
	err := journal.WhileHeld(ctx, open, func(err error) {
		cfg.Log.Warn("another engine holds the database: waiting until it is gone", "error", err)
	})
	if !errors.Is(err, journal.ErrHeld) {
		return err
	}
	held := &api.Error{Code: api.CodeHeld, Err: err}
	if strings.HasPrefix(cfg.Database, "postgres") {
		held.Hint = "several processes share a database with Config.Cluster: a pawlcluster.Node"
	}
	return fmt.Errorf("%w: %w", held, context.Cause(ctx))
}

// checkLimits refuses limits that make no sense.
func checkLimits(field string, all map[string]policy.QueueLimits) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l := all[name]
		err := l.Check()
		if err == nil && name == "" {
			err = errors.New("the name is empty")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("Config.%s[%q]: %w", field, name, err))
		}
	}
	return errors.Join(errs...)
}

// ownerOf marks the processes of a database's steps, so that those which outlive a killed program are ended before
// anything is tried again; "": nobody looks for them. Only a file tells that the program which started them is gone: on
// a server's database another one on this machine may be alive.
func ownerOf(database string) string {
	if scheme, name, _ := strings.Cut(database, ":"); scheme == "sqlite" {
		return worker.OwnerOf(name)
	}
	return ""
}

// artifactsOf returns where the steps of flows keep files; nil: nowhere.
func artifactsOf(cfg Config) *artifact.Store {
	folder := cfg.Artifacts
	if scheme, name, _ := strings.Cut(cfg.Database, ":"); folder == "" && scheme == "sqlite" {
		if file, _, err := journal.SplitPartitions(strings.TrimPrefix(name, "//")); err == nil {
			folder = file + ".artifacts"
		}
	}
	if folder == "" {
		return nil
	}
	return artifact.New(artifact.NewFolder(folder), artifact.Limits{})
}
