package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/part"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/caller"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/virtual"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/web"
)

// machine is a database that this process has open with a daemon on it; or another process that has both.
type machine struct {
	*daemon.Daemon                 // nil: another process has the engine
	remote         *httpapi.Client // a client of that process; nil: this one has the engine
	svc            api.Service     // the engine's service
	place          database.Place
	journal        journal.Journal // nil: another process has it
	clock          *virtual.Clock  // a stopped clock; nil if it is the wall clock
	signals        chan os.Signal  // signals to stop, received once attempts are executed; nil: none are
	metrics        part.Metrics    // nil: nobody reads any, or this binary was built without them
	gateway        part.Gateway    // the workflows of Temporal's SDKs; nil: this binary was built without them
	others         []part.Gateway  // those of a server's namespaces beside the default one
	sdks           part.SDKs       // serves Temporal's SDKs; nil: nothing does
}

// start opens the database and a daemon on it. With work set, attempts are executed; without, operations are applied
// and everything else waits until a process executes attempts again. If another process has the engine, a server or one
// that holds the database, the machine works through that process.
//
// It carries on the families of carried, and runs that are started; all others rest.
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
	j, c, err := p.OpenOrJoin(ctx)
	for c != nil && err == nil {
		var m *machine
		if m, err = a.through(ctx, &machine{svc: c, remote: c, place: p}, work, carried); !unanswered(err) {
			a.clock = c.Now
			return m, err
		}
		a.joined = false // that process has ended meanwhile, and to carry a run on can be asked for again
		j, c, err = p.OpenOrJoin(ctx)
	}
	if err != nil {
		return nil, err
	}
	m, err := a.assemble(ctx, p, j, work, carried)
	if err != nil {
		return nil, err
	}
	if work {
		m.signals = stopSignals()
	}
	if err := m.Open(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// assemble makes a daemon on an open database, which does nothing yet. If it fails, it closes the database.
func (a *app) assemble(
	ctx context.Context, p database.Place, j journal.Journal, work bool, carried []core.RunID,
) (*machine, error) {
	m := &machine{place: p, journal: j}
	cfg, err := a.configOf(ctx, m, work)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	if a.folder == nil { // else it is a server, which carries on all that it has
		cfg.Carried = engine.NewCarried(carried...)
	}
	if m.Daemon, err = daemon.New(cfg); err != nil {
		return nil, err
	}
	m.svc = m.Service()
	return m, nil
}

// configOf returns what the daemon of a machine's database is made of.
func (a *app) configOf(ctx context.Context, m *machine, work bool) (daemon.Config, error) {
	if a.slots < 0 {
		return daemon.Config{}, usage("--processes is at least 1, not %d", a.slots)
	}
	secrets, err := a.secretStore()
	if err != nil {
		return daemon.Config{}, err
	}
	artifacts, err := artifactStore(ctx, a, m.place)
	if err != nil {
		return daemon.Config{}, err
	}
	retention, err := a.retentionOf(work)
	if err != nil {
		return daemon.Config{}, err
	}
	m.gateway = gatewayOf(a, m, retention)
	cfg := daemon.Config{
		Journal: m.journal, Paths: m.place, Namespace: m.place.Namespace, Work: work,
		Owner: fmt.Sprintf("pid %d", os.Getpid()), Plugins: m.plugins(a.flows.Plugin()),
		Read: a.readWorkflow,
		Processes: worker.ExecConfig{
			Secrets: secrets, Containers: a.containerProgram, Artifacts: artifacts, Reach: a.reach,
		}, Slots: a.processes(),
		Bodies: a.folder != nil,
		Flows:  a.flowsOf(m), Webhooks: daemon.Webhooks{Send: a.folder != nil, Allow: a.webhookAllow},
		Retention: retention, Version: buildVersion(), Routes: routes,
		Warnings: a.peopleLog(), NoSocket: func(err error) {
			fmt.Fprintf(a.Err, "pawl: other commands cannot work with the database while this one runs: %v\n", err)
		}, Held: func(ctx context.Context, err *journal.HeldError) error {
			return whileHeld(ctx, m.journal, err, a.Err)
		},
	}
	if a.folder == nil { // a server's steps get what the server has
		own, err := caller.Own(secrets)
		if err != nil {
			return cfg, err
		}
		cfg.Callers = caller.NewRegister(own)
	}
	if a.folder != nil {
		cfg.Compiled, cfg.Scheduled = scheduled.Reader(&a.flows.Flows), a.tellSchedule
		if flows := a.folder.Over(m.place.Namespace, nil, nil); flows.Path() != "" {
			cfg.Files = flows.Files
		}
	}
	if a.virtual {
		if m.clock, err = virtual.Of(ctx, m.journal, now()); err != nil {
			return cfg, err
		}
		cfg.Clock = m.clock
	}
	if a.guard != nil {
		cfg.Guarded, cfg.Limits, cfg.Log, cfg.Processes.Log = true, a.guard.limits(), a.guard.log, a.guard.log
		cfg.Cluster = a.guard.sharing.in(m.place.Namespace)
		if m.place.Namespace == "" && a.guard.connections != nil {
			cfg.Connections = a.guard.connections
		}
		if s := a.guard.signing; s.issuer != nil && m.place.Namespace == "" { // it admits callers of all namespaces
			cfg.Issuer, cfg.SessionFor = s.issuer, s.keep
		}
	}
	return cfg, a.observe(m, &cfg)
}

// observe lets a server be asked how it is doing, and makes it send spans where the environment names a collector.
func (a *app) observe(m *machine, cfg *daemon.Config) error {
	if a.folder == nil {
		return nil
	}
	switch {
	case part.NewMetrics == nil:
	case m.place.Namespace == "":
		a.metrics = part.NewMetrics(buildVersion()) // the default namespace is opened first
		m.metrics = a.metrics
	default:
		m.metrics = a.metrics.In(m.place.Namespace)
	}
	if m.metrics != nil {
		cfg.Metrics, cfg.Observer = m.metrics, m.metrics.Observer()
	}
	if err := a.trace(); err != nil || a.tracer == nil {
		return err
	}
	cfg.Observer, cfg.Processes.Trace = a.tracer.Observer(cfg.Observer), a.tracer.Parent
	return nil
}

// sendWithin is how long a server that ends may take to send its last spans.
const sendWithin = 2 * time.Second

// trace makes a server send spans, if the environment names a collector. Its namespaces share the tracer.
func (a *app) trace() error {
	if a.tracer != nil {
		return nil
	}
	log := slog.New(slog.NewTextHandler(a.Err, nil))
	if a.guard != nil {
		log = a.guard.log
	}
	var err error
	if a.tracer, err = part.OpenTracer(context.Background(), buildVersion(), log); err != nil {
		return usage("%v", err)
	}
	return nil
}

// closeTracer sends the remaining spans. What cannot be sent is logged.
func (a *app) closeTracer() {
	if a.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendWithin)
	defer cancel()
	_ = a.tracer.Close(ctx)
}

// tellSchedule reports what happens to the schedule of a served flow.
func (a *app) tellSchedule(text string) {
	if a.guard != nil {
		a.guard.log.Info(text)
		return
	}
	a.say("%s", screen.Clean(text))
}

// flowsOf returns the flows that are started by name on a machine's database, and those that were applied there.
func (a *app) flowsOf(m *machine) func(func(string) (journal.Definition, error)) (server.Flows, api.Catalog) {
	return func(served func(string) (journal.Definition, error)) (server.Flows, api.Catalog) {
		applied := workflows.Applied(m.journal)
		if a.folder == nil {
			return nil, applied
		}
		flows := a.folder.Over(m.place.Namespace, applied, served)
		return flows, flows.Catalog()
	}
}

// routes adds the page, and the APIs of other systems where flows are started by name.
func routes(r server.Routes, svc api.Service, flows server.Flows) {
	web.Routes(func(pattern string, answer http.HandlerFunc) { r.Handle(server.Anyone, pattern, answer) })
	if flows != nil {
		workflows.Routes(r.Handle, svc, flows.Find)
	}
}

// processes returns how many processes of steps this command runs at once.
func (a *app) processes() int {
	if a.slots == 0 {
		return worker.DefaultProcesses()
	}
	return a.slots
}

// peopleLog shows a person at a server problems with webhooks, and with workers of Temporal's SDKs. Other commands have
// neither.
func (a *app) peopleLog() *slog.Logger {
	if a.folder == nil {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.Err, nil))
}

// carry makes a machine carry a run on, with its family: for this command, or with keep for whoever it is carried on
// for already.
func (m *machine) carry(ctx context.Context, run string, keep bool) error {
	if m.remote != nil {
		return m.remote.Carry(ctx, run, keep)
	}
	return m.Carry(ctx, run, keep)
}

// close stops the workers, then the engine, then the journal.
func (m *machine) close() error {
	if m.remote != nil {
		m.remote.Close()
		return nil
	}
	if m.signals != nil {
		signal.Stop(m.signals)
	}
	return m.Close()
}
