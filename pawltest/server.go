package pawltest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/daemon/folder"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// serverAddress is where the server of a test listens, in the test's own network.
const serverAddress = "127.0.0.1:7295"

// Server is a pawl server under test, and a client of it. Its runs are in memory, and it is reached over connections in
// memory. It has no program's code: [Server.Serve] and [Server.Work] begin processes that have.
type Server struct {
	*pawlhttp.Client
	t       *testing.T
	journal *memory.Journal
	network *memnet.Net

	daemon    *daemon.Daemon
	listener  *memnet.Listener
	dead      *atomic.Bool    // the server was crashed: drop what it logs
	ctx       context.Context // ends the processes when the test ends
	processes sync.WaitGroup
}

// RunServer runs a test in virtual time with a server, for programs that use [pawlhttp.Serve], [pawlhttp.Worker] and
// [pawlhttp.Connect]: what they say to each other goes over the wire. A process asks the server every few seconds, so a
// virtual day takes some seconds.
func RunServer(t *testing.T, test func(t *testing.T, s *Server)) {
	checkGiven(t != nil && test != nil)
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{t: t, journal: memory.New(), network: new(memnet.Net)}
		c, err := pawlhttp.Connect("http://"+serverAddress, pawlhttp.ClientConfig{
			Transport: &http.Transport{DialContext: s.network.Dial},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Client = c
		var stop context.CancelFunc
		s.ctx, stop = context.WithCancel(context.WithoutCancel(t.Context()))
		defer func() {
			stop()
			s.processes.Wait()
			_ = c.Close() // it returns no error
			s.close()
		}()
		s.open()
		test(t, s)
	})
}

// Serve begins a process that runs the bodies of workflows for the server, as [pawlhttp.Serve] does until the context
// or the test ends. It returns when the server knows the process. kill ends it as its death would: the server hears
// nothing of it any more, and the contexts of its steps end. Transport and Log are the test's own.
func (s *Server) Serve(ctx context.Context, cfg pawlhttp.ServeConfig) (kill func()) {
	s.checkMade()
	s.t.Helper()
	p := s.process()
	cfg.Transport, cfg.Log, cfg.Intercept = p.transport(), p.log, p.intercept(cfg.Intercept)
	return p.run(ctx, func(ctx context.Context) error { return pawlhttp.Serve(ctx, "http://"+serverAddress, cfg) })
}

// Work begins a process that executes tasks of one of the server's queues, as [pawlhttp.Worker.Run] does until the
// context or the test ends. kill ends it as its death would. Server, Transport and Log are the test's own.
func (s *Server) Work(ctx context.Context, w pawlhttp.Worker) (kill func()) {
	s.checkMade()
	s.t.Helper()
	p := s.process()
	w.Server, w.Transport, w.Log, w.Intercept = "http://"+serverAddress, p.transport(), p.log, p.intercept(w.Intercept)
	return p.run(ctx, w.Run)
}

// Skip lets time pass. Everything that is due in that time happens.
func (s *Server) Skip(d time.Duration) {
	s.checkMade()
	time.Sleep(d)
	synctest.Wait()
}

// Settle waits until every goroutine waits for time to pass or for another goroutine.
func (s *Server) Settle() {
	s.checkMade()
	synctest.Wait()
}

// Restart stops the server and starts it again, as a deploy does. Processes wait until it answers.
func (s *Server) Restart() {
	s.checkMade()
	s.t.Helper()
	s.close()
	s.journal = s.journal.Reopen()
	s.open()
}

// Crash ends the server as the death of its process would, and starts it again with what was durable.
func (s *Server) Crash() {
	s.checkMade()
	s.t.Helper()
	s.dead.Store(true)
	s.journal = s.journal.Reopen() // the old one cannot save anything from here on
	_ = s.listener.Close()
	s.listener.Cut()
	old := s.daemon
	s.processes.Go(func() { _ = old.Close() }) // it cannot save anything, and says so
	s.open()
}

// stopWithin is how long requests may take to be answered when a server stops.
const stopWithin = 10 * time.Second

func (s *Server) close() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if err := s.daemon.Shutdown(ctx); err != nil {
		s.t.Errorf("pawltest: the server did not stop well: %v", err)
	}
}

func (s *Server) open() {
	s.t.Helper()
	store := new(workflows.Store)
	flows := folder.New("", store, false)
	s.dead = new(atomic.Bool)
	j := s.journal
	d, err := daemon.New(daemon.Config{
		Journal: j, Work: true, Plugins: []kind.Plugin{store.Plugin()}, Read: store.Read, Slots: 1, Bodies: true,
		Owner: "the server of a test", Log: logOf(s.t, s.dead),
		Flows: func(served func(string) (journal.Definition, error)) (server.Flows, api.Catalog) {
			flows := flows.Over("", workflows.Applied(j), served)
			return flows, flows.Catalog()
		},
	})
	if err == nil {
		err = d.Open(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.daemon, s.listener = d, s.network.Listen(serverAddress)
	d.Listen(s.listener, nil)
}

// process is a process of a test that works for the server.
type process struct {
	s    *Server
	host *memnet.Peer
	dead atomic.Bool
	over context.Context // ends when it dies
	log  *slog.Logger
}

func (s *Server) process() *process {
	p := &process{s: s, host: memnet.NewPeer(s.network.Dial)}
	p.log = logOf(s.t, &p.dead)
	return p
}

func (p *process) transport() http.RoundTripper { return &http.Transport{DialContext: p.host.Dial} }

// intercept ends the contexts of steps when the process dies.
func (p *process) intercept(inner pawl.Interceptor) pawl.Interceptor {
	return func(
		ctx context.Context, a client.AttemptInfo, next func(ctx context.Context) ([]byte, error),
	) ([]byte, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.over, cancel)()
		if inner == nil {
			return next(ctx)
		}
		return inner(ctx, a, next)
	}
}

// run runs what the process does, until the context or the test ends, or the process is killed.
func (p *process) run(ctx context.Context, do func(ctx context.Context) error) (kill func()) {
	ctx, stop := context.WithCancel(ctx)
	over, die := context.WithCancel(context.WithoutCancel(ctx))
	p.over = over
	context.AfterFunc(p.s.ctx, stop)
	p.s.processes.Go(func() {
		defer die()
		defer stop()
		if err := do(ctx); err != nil && !p.dead.Load() {
			p.s.t.Errorf("pawltest: a process of the server: %v", err)
		}
	})
	synctest.Wait()
	return func() {
		p.dead.Store(true)
		p.host.Die()
		die()
		stop()
		synctest.Wait()
	}
}
