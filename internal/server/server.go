package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/singleflight"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/overview"
)

// Config specifies what a server serves.
type Config struct {
	Service api.Service
	// Flows finds the flows that can be started by name, and reads those in requests. nil: runs are started by their
	// definitions only.
	Flows Flows
	// Missing returns why the steps of a flow cannot begin here, such as an unknown secret. Its runs are not started
	// then. nil: nothing is checked.
	Missing func(ctx context.Context, d api.Definition) error
	// Engine returns why the engine takes no requests, for /readyz, or nil if it is not asked.
	Engine func() error
	// Damaged reports whether an error means that the storage is permanently damaged. nil: none does.
	Damaged func(error) bool
	// Catalog stores the flows that are applied; it lists those of Flows, too. nil: none are stored.
	Catalog api.Catalog
	// Carry carries a run on that rests in the engine; see engine.Carried. With keep it stays for whoever it is carried
	// on for. nil: none rests.
	Carry func(ctx context.Context, run string, keep bool) error
	// Callers keeps what other commands give for the steps of their runs. nil: all steps get what this process has.
	Callers Callers
	// Updates sends updates to the bodies of Go workflows. nil: there are none.
	Updates api.Updates
	// QueueReport tells what waits for workers, and who works. nil: nothing is known.
	QueueReport func(ctx context.Context) (api.QueueReport, error)
	// Minutes reads what was counted by minute. nil: nothing was.
	Minutes overview.Minutes
	// Webhooks keeps webhooks and sends their messages. nil: there are none.
	Webhooks api.Webhooks
	// Tasks hands out tasks to workers in other processes. nil: none are handed out.
	Tasks api.Tasks
	// Bodies leases runs of Go workflows to the processes that serve these. nil: none may.
	Bodies api.Bodies
	// Changes streams what happens in all runs. nil: there is no stream.
	Changes api.Changes
	// Policies explains what policies do. nil: there are no such requests.
	Policies api.Policies
	// Answers keeps what requests with an idempotency key were answered. nil: only starts take a key.
	Answers Answers
	// Namespace is the name of this server's namespace. Default: api.DefaultNamespace.
	Namespace string
	// Access keeps tokens and the audit log. nil: there are none.
	Access Access
	// SignIn is where people sign in, for a session of SessionFor. nil: the page asks for a token.
	SignIn     SignIn
	SessionFor time.Duration
	// Guarded asks callers from the network for a token. Those of the socket beside the database need none.
	Guarded bool
	// Allow decides which callers from the network may do what they ask for, instead of tokens. nil: this does not.
	Allow func(r *http.Request) bool
	// Limits bound the requests of one token, and of all.
	Limits Limits
	// Queued returns how many attempts wait for a worker. nil: starts are not bounded.
	Queued func() int
	// Logs reads what attempts print. nil: nothing is kept.
	Logs api.LogReader
	// Artifacts keeps files of steps. nil: nothing is kept.
	Artifacts api.ArtifactKeeper
	// Cluster is the nodes that share the database. nil: the server is not a node.
	Cluster api.Cluster
	// Pruner removes old runs. nil: it is not allowed.
	Pruner api.Pruner
	// Clock moves the clock. nil: the clock runs.
	Clock api.Clock
	// Now is the clock of the runs. Default: the wall clock.
	Now func() time.Time
	// Version is the program's, for /version.
	Version string
	// Log gets errors that no caller sees: panics, and errors of the server itself. nil: nothing is logged.
	Log *slog.Logger
	// Routes adds the requests of another API, which works through service; nil if there is none.
	Routes func(routes Routes, service api.Service)
	// Metrics counts requests, and is served at /metrics. nil: nothing is counted.
	Metrics Metrics
	// Connections count the connections of the listeners, which are theirs. nil: nobody counts them.
	Connections Connections
	// MaxBody bounds the body of a request with many reports or decisions, in bytes. Those of other routes have bounds
	// of their own, which it lowers at most. Default: 8 MiB.
	MaxBody int64
}

// Connections count the connections of listeners, and bound them.
type Connections interface {
	// State notes the state of a connection.
	State(net.Conn, http.ConnState)
	// OnlyProbes reports whether a connection may only ask whether the server is alive and ready.
	OnlyProbes(net.Conn) bool
}

// Metrics counts requests, and answers what reads the metrics.
type Metrics interface {
	http.Handler
	// Request counts a request that was answered. route is the pattern of its route, empty if there is none for it.
	Request(method, route string, status int, took time.Duration)
	// Only serves the metrics of one namespace.
	Only(namespace string) http.Handler
}

// The limits on the size and time of requests.
const (
	defaultMaxBody = 8 << 20
	thrownAway     = 7                // a too large body is read and dropped up to this multiple of MaxBody
	maxHeader      = 16 << 10         // nothing is known of the caller yet
	headerWithin   = 10 * time.Second // a request's header arrives
	bodyWithin     = 30 * time.Second // and its body
	writeWithin    = 30 * time.Second // each part of an answer is taken
	writePart      = 32 << 10         // how large such a part is
	idleFor        = 2 * time.Minute  // the pause between two requests of a connection
)

// Server serves one service on any number of listeners.
type Server struct {
	cfg     Config
	http    *http.Server
	mux     *http.ServeMux
	roles   map[string]string // the role that each route asks for; see Routes
	api     huma.API
	others  sync.Map // the servers of other namespaces, by name
	streams atomic.Int64
	desk    *desk // the desk where people sign in; nil if they do not

	draining atomic.Bool // it reports that it is not ready
	usage    *usage      // the use of tokens
	unknown  unknown
	looks    singleflight.Group
	damage   atomic.Pointer[error] // damage of the storage, until the server is started again
	texts    chan struct{}         // has one for each text of a flow or a policy that is being read
	atWork   sync.Map              // the hashes of idempotency keys of requests that are being carried out
	over     context.Context       // ends when the streams have to end
	end      context.CancelFunc
}

// New returns a server. It serves nothing yet.
func New(cfg Config) *Server {
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = defaultMaxBody
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Namespace = cmp.Or(cfg.Namespace, api.DefaultNamespace)
	s := &Server{
		cfg: cfg, mux: http.NewServeMux(), roles: map[string]string{}, usage: newUsage(cfg.Limits),
		texts: make(chan struct{}, mostTexts),
	}
	if cfg.SignIn != nil {
		s.desk = &desk{cfg.SignIn, cfg.Access, cfg.SessionFor, cfg.Log}
	}
	s.cfg.Service = signed{cfg.Service, func() error { return s.usage.mayStart(cfg.Queued) }}
	s.over, s.end = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),
	}
	if c := cfg.Connections; c != nil {
		s.http.ConnState = c.State
		s.http.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, onlyProbesKey{}, c.OnlyProbes(conn))
		}
	}
	return s
}

// Handler returns the handler of all requests, for a program with its own listener.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Serve answers requests at a listener, until Shutdown or Close. The listener is closed then.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Streams returns how many callers follow a run, or wait for its end, at present.
func (s *Server) Streams() int { return int(s.streams.Load()) }

// Shutdown takes no more requests and waits until the open ones are answered. Streams end at once, their callers go on
// elsewhere with the id of the last message, and so do waits. What is left when ctx ends is cut. Then it returns the
// error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	s.others.Range(func(_, other any) bool {
		other.(*Server).end()
		return true
	})
	err := s.http.Shutdown(ctx)
	return errors.Join(err, s.Close())
}

// Close cuts all connections.
func (s *Server) Close() error {
	s.end()
	return s.http.Close()
}
