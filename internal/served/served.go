// Package served connects package pawlhttp with package pawl, so that the root package need not link net/http: pawlhttp
// executes handlers in a process without an engine, serves an engine, and is a client of a server.
package served

import (
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Executors makes what executes handlers, by task type. cfg is a pawl.Config, handlers are a []pawl.AnyHandler.
type Executors func(
	ctx context.Context, cfg any, queue string, slots int, handlers any,
) (all map[string]worker.Executor, stop func(), err error)

// Server is the part of a server that a client needs.
type Server interface {
	Calls
	// StartNamed starts a workflow that the server knows by its name. Errors: those of Start, CodeNotFound.
	StartNamed(ctx context.Context, workflow string, r api.StartRequest) (api.Started, error)
}

// ProgramEngine is the engine of a Go program, as a server needs it.
type ProgramEngine interface {
	Calls
	// Workflows returns the names of the workflows that it can start.
	Workflows() []string
	// Find returns the definition of the workflow with a name. Errors: CodeNotFound.
	Find(ctx context.Context, name string) (api.Definition, error)
}

// Cluster makes engines that share a database: a pawlcluster.Node.
type Cluster interface {
	// Join makes this process a node that owns nothing yet.
	Join(ctx context.Context, log *slog.Logger) (Member, error)
}

// Member is this process as a node of a cluster.
type Member interface {
	// Configure makes an engine one of several. It is called before the engine is made.
	Configure(cfg *engine.Config) error
	// Open begins to take part in the work with an engine that is open, and returns the service of the runs of all
	// nodes.
	Open(ctx context.Context, own Own) (Calls, error)
	// ID returns the name of the node.
	ID() string
	// Relays reports whether this node does at present what one node does for all.
	Relays() bool
	// Close hands over what the node owns, stops it, and then closes its engine.
	Close() error
}

// Own is a node's own engine.
type Own struct {
	Service ProgramEngine // the service of its own runs
	Reader  *service.Embedded
	Engine  *engine.Engine
	Close   func() error
}

// Calls are the calls of callers about runs.
type Calls interface {
	api.Service
	api.Updates
}

var (
	executors Executors
	connect   func(s Server, cfg any) any
	served    func(engine any) ProgramEngine
	program   Program
)

// Program makes a server of a server's workflows in a process without an engine. cfg is a pawl.Config. stop unwinds the
// bodies.
type Program func(ctx context.Context, cfg any) (of lease.Program, stop func(), err error)

// Register sets the functions that make executors, clients, engines and programs. Package pawl does so before any other
// code runs.
func Register(e Executors, c func(s Server, cfg any) any, of func(engine any) ProgramEngine, p Program) {
	executors, connect, served, program = e, c, of, p
}

// Serving makes a server of workflows.
func Serving(ctx context.Context, cfg any) (lease.Program, func(), error) {
	return program(ctx, cfg)
}

// Make makes executors.
func Make(ctx context.Context, cfg any, queue string, slots int, handlers any) (
	map[string]worker.Executor, func(), error,
) {
	return executors(ctx, cfg, queue, slots, handlers)
}

// Connect makes the client of a server, a pawl.Client. cfg is a pawl.Config.
func Connect(s Server, cfg any) any { return connect(s, cfg) }

// Of returns an engine, a *pawl.Engine, as a server needs it.
func Of(e any) ProgramEngine { return served(e) }
