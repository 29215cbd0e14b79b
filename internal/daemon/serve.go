package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/cases"
	"github.com/pawl-dev/pawl/internal/journal"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/virtual"
)

// answersKept is how long an idempotency key holds.
const answersKept = 24 * time.Hour

// Protocol serves the connections of listeners. The HTTP API is one.
type Protocol interface {
	Serve(l net.Listener) error // returns nil once the protocol was shut down or closed
	Shutdown(ctx context.Context) error
	Close() error
}

// listening is a listener and its server.
type listening struct {
	protocol Protocol
	ended    chan struct{} // closed when the listener is no longer served
}

// Listen serves a listener until the daemon closes. A nil protocol means the HTTP API.
func (d *Daemon) Listen(l net.Listener, protocol Protocol) {
	if protocol == nil {
		protocol = d.server
	}
	one := listening{protocol, make(chan struct{})}
	d.listening = append(d.listening, one)
	go func() {
		defer close(one.ended)
		if err := protocol.Serve(l); err != nil {
			d.tellEnd(fmt.Errorf("the server has ended: %w", err))
		}
	}()
}

// tellEnd reports that a part has ended on its own. Later ends are not reported, because the daemon has ended.
func (d *Daemon) tellEnd(err error) {
	select {
	case d.ended <- err:
	default:
	}
}

// Ended receives the reason why a listener or a namespace has ended on its own.
func (d *Daemon) Ended() <-chan error { return d.ended }

// Handler returns the HTTP API, for a program with its own listener.
func (d *Daemon) Handler() http.Handler { return d.server.Handler() }

// Streams returns how many callers follow a run, or wait for its end, at present.
func (d *Daemon) Streams() int { return d.server.Streams() }

// Begin counts a request of a token that came by another protocol, or refuses it; see [server.Begin].
func (d *Daemon) Begin(token api.Token, waits bool) (end func(), err error) {
	return server.Begin(d.server, token, waits)
}

// SetLimits changes the bounds of the requests of one token.
func (d *Daemon) SetLimits(l server.Limits) { d.server.SetLimits(l) }

// serve makes the server, and allows other commands on this machine to work with the database through it. The daemon
// works even if the socket cannot be made: others learn who holds the database.
func (d *Daemon) serve() {
	if d.access = d.cfg.Access; d.access == nil {
		d.access = access.NewKeeper(d.cfg.Journal, func() api.Time { return api.Time(wallNow()) }, d.cfg.Log)
	}
	if d.cfg.Issuer != nil {
		d.access.Trust(d.cfg.Issuer)
	}
	d.server = server.New(d.serverConfig())
	d.measure()
	if d.cfg.Paths == nil || d.cfg.Paths.Socket() == "" {
		return
	}
	l, err := httpapi.ListenSocket(d.cfg.Paths.Socket())
	switch {
	case err == nil:
		d.Listen(l, nil)
	case d.cfg.NoSocket != nil:
		d.cfg.NoSocket(err)
	}
}

// Missing returns which secret of a flow cannot be had here, where this process executes its steps.
func (d *Daemon) Missing(ctx context.Context, def api.Definition) error {
	if def.Kind != journal.KindFlow {
		return nil
	}
	f, err := d.cfg.Compiled(def)
	if err != nil || flowkind.Elsewhere(f.Document) {
		return nil //nolint:nilerr // the start says what is wrong with it
	}
	for _, name := range f.Document.Secrets {
		if err := d.cfg.Processes.Secrets.Check(ctx, name); err != nil {
			return &api.Error{
				Code: api.CodeInvalid, Message: err.Error(),
				Hint: fmt.Sprintf("the steps of flow %q need it in the process of the server", def.Name),
			}
		}
	}
	return nil
}

// serverConfig returns the configuration of the server.
func (d *Daemon) serverConfig() server.Config {
	c := server.Config{
		Service: d.svc, Policies: cases.Lab{}, Version: d.cfg.Version, Namespace: d.cfg.Namespace,
		Guarded: d.cfg.Guarded, Allow: d.cfg.Allow, Limits: d.cfg.Limits, Log: d.cfg.Log,
		Connections: d.cfg.Connections,
		Damaged:     func(err error) bool { return errors.Is(err, journal.ErrCorrupt) },
	}
	if d.engine != nil {
		c.Engine = d.failing
		c.Queued = func() int { return d.engine.Stats().Queued }
	}
	var served func(name string) (journal.Definition, error)
	if d.bodies != nil {
		c.Bodies, c.Updates, served = d.allBodies(), d.updates(), d.bodies.FindStored
	}
	if d.cfg.Flows != nil {
		c.Flows, c.Catalog = d.cfg.Flows(served)
	}
	if d.cfg.Compiled != nil && d.cfg.Work {
		c.Missing = d.Missing
	}
	if c.Catalog != nil && d.cfg.Compiled != nil {
		c.Catalog = scheduled.Applied{
			Catalog: c.Catalog, Service: d.svc, Read: d.cfg.Compiled, Now: func() time.Time { return d.now().Std() },
		}
	}
	if i := d.cfg.Issuer; i != nil && i.SignsIn() {
		c.SignIn, c.SessionFor = i, d.cfg.SessionFor
	}
	if d.cfg.Routes != nil {
		c.Routes = func(r server.Routes, svc api.Service) { d.cfg.Routes(r, svc, c.Flows) }
	}
	if d.program != nil {
		c.Updates = d.program.Service
		if d.routed != nil {
			c.Updates = d.routed
		}
		return c
	}
	if d.cfg.Callers != nil {
		c.Callers = callers{d}
	}
	c.Carry, c.Pruner, c.Access = d.Carry, d.pruner(), d.access
	c.Minutes, c.QueueReport = d.minutes.Read, d.Queues
	c.Tasks, c.Changes, c.Webhooks = d.tasks(), d.allChanges(), d.webhooks
	c.Answers = service.NewAnswers(d.cfg.Journal, answersKept, wallNow)
	c.Now = func() time.Time { return d.now().Std() }
	if d.cfg.Paths != nil {
		c.Logs = Logs{d.cfg.Paths.LogDir(), d.svc}
	}
	if store := d.cfg.Processes.Artifacts; store != nil {
		c.Artifacts = Artifacts{store, d.svc}
	}
	if d.cfg.Cluster != nil {
		c.Cluster = d.cfg.Cluster.Node.Operator()
	}
	if d.cfg.Clock != nil {
		c.Clock = virtual.NewMover(d.cfg.Clock, d.engine)
	}
	if d.cfg.Metrics != nil {
		c.Metrics = d.cfg.Metrics
	}
	return c
}

// measure lets the metrics read the state of the daemon.
func (d *Daemon) measure() {
	if m := d.cfg.Metrics; m != nil {
		m.Read(d.stats, d.server.Streams)
		m.ReadQueues(d.engine.Queues)
		m.ReadWebhooks(d.webhooks.Counts)
	}
}

// tasks returns the tasks for workers in other processes: those of this process, or of all nodes.
func (d *Daemon) tasks() api.Tasks {
	if d.cfg.Cluster != nil {
		return d.cfg.Cluster.Node.Tasks(d.queues, d.engine)
	}
	return d.queues
}

// allChanges returns the changes of the runs: those of this process, or of all nodes.
func (d *Daemon) allChanges() api.Changes {
	if d.cfg.Cluster != nil {
		return d.cfg.Cluster.Node.Changes(d.changes)
	}
	return d.changes
}
