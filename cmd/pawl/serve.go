package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/cases"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/server/stevoraapi"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/virtual"
	"github.com/pawl-dev/pawl/web"
)

// serving is the server of a machine, for other commands and other programs.
type serving struct {
	*server.Server
	ended chan error // the end of each listener
	count int        // number of listeners
}

// answersKept is how long an idempotency key holds.
const answersKept = 24 * time.Hour

// serve lets other commands on this machine work with the database through this process. The command works on if the
// socket cannot be made: others are told who holds the database.
func (a *app) serve(m *machine) {
	cfg := server.Config{
		Service: m.svc, Carry: m.carryFamily, Tasks: m.tasks(), Logs: logFolder{m.place.logDir(), m.svc},
		Changes: m.happenings(), Policies: cases.Lab{}, Pruner: m.pruner(), Version: buildVersion(),
	}
	if m.webhooks != nil {
		cfg.Webhooks = m.webhooks
	}
	if m.sharing != nil {
		cfg.Cluster = m.sharing.Operator()
	}
	if m.bodies != nil {
		cfg.Bodies, cfg.Updates = m.allBodies(), m.updates()
	}
	cfg.Answers = service.NewAnswers(m.journal, answersKept, now)
	if m.place.namespace == "" {
		m.access = access.NewKeeper(m.journal, apiNow, a.serverLog())
		a.keeper = m.access
	}
	cfg.Access = a.keeper // the keeper of the server's own database, for all namespaces
	if m.Engine != nil {
		cfg.Engine = m.failing
	}
	cfg.Damaged = func(err error) bool { return errors.Is(err, journal.ErrCorrupt) }
	cfg.Namespace = m.place.namespace
	cfg.Now = func() time.Time { return m.now().Std() }
	if m.clock != nil {
		cfg.Clock = virtual.NewMover(m.clock, m.Engine)
	}
	flows, applied := a.folder.of(m.place.namespace), a.catalogOf(m.journal)
	if flows != nil {
		flows.bodies = m.bodies
	}
	if applied != nil {
		cfg.Catalog = applied
	}
	if flows != nil {
		cfg.Flows, flows.applied = flows, applied
		if applied != nil {
			cfg.Catalog = startable{applied, flows}
		}
	}
	cfg.Routes = func(mux *http.ServeMux, svc api.Service) {
		web.Routes(mux)
		if flows != nil {
			stevoraapi.Routes(mux, svc, flows.Find)
		}
	}
	if m.metrics != nil {
		cfg.Metrics = m.metrics
		m.metrics.Read(m.Stats, func() int { return m.serving.Streams() })
		m.metrics.ReadQueues(m.Queues)
		if m.webhooks != nil {
			m.metrics.ReadWebhooks(m.webhooks.Counts)
		}
	}
	if a.guard != nil {
		cfg.Guarded, cfg.Limits, cfg.Log = true, a.guard.limits(), a.guard.log
	}
	m.serving = &serving{Server: server.New(cfg), ended: make(chan error, 2)}
	if m.place.memory || m.place.server != "" {
		return
	}
	l, err := httpapi.ListenSocket(httpapi.SocketOf(m.place.path))
	if err != nil {
		fmt.Fprintf(a.Err, "pawl: other commands cannot work with the database while this one runs: %v\n", err)
		return
	}
	m.serving.on(l)
}

// tasks returns the tasks that workers in other processes take: those of this process, or of all nodes.
func (m *machine) tasks() api.Tasks {
	if m.sharing != nil {
		return m.sharing.Tasks(m.queues, m.Engine)
	}
	return m.queues
}

// happenings returns the changes of the runs: those of this process, or of all nodes.
func (m *machine) happenings() api.Changes {
	if m.sharing != nil {
		return m.sharing.Changes(m.changes)
	}
	return m.changes
}

// on serves a listener.
func (s *serving) on(l net.Listener) {
	s.count++
	go func() { s.ended <- s.Serve(l) }()
}

// stop cuts all connections.
func (s *serving) stop() error {
	err := s.Close()
	for ; s.count > 0; s.count-- {
		err = errors.Join(err, <-s.ended)
	}
	return err
}

// othersLook is how often a command that is done looks whether others still follow runs through it.
const othersLook = 50 * time.Millisecond

// waitForOthers waits while other commands follow runs through this one: their attempts would be cut off. A signal ends
// the waiting.
func (a *app) waitForOthers(m *machine) {
	if m.serving.Streams() == 0 {
		return
	}
	fmt.Fprintln(a.Err, "pawl: other commands follow runs through this one; it stays until these have ended "+
		"(Ctrl-C: at once)")
	look := time.NewTicker(othersLook)
	defer look.Stop()
	for m.serving.Streams() > 0 {
		select {
		case <-look.C:
		case <-m.signals:
			return
		case <-m.Done():
			return
		}
	}
}

// inUse explains why an address, which a flag names, cannot be listened on.
func inUse(flag, address string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("listen on %s: %w; ports below 1024 are the system's: choose another one with --%s",
			address, err, flag)
	}
	return fmt.Errorf("listen on %s: %w; another program may use the port: choose another one with --%s",
		address, err, flag)
}
