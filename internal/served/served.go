// Package served is the door between package pawlhttp and package pawl, so that the root package need not link
// net/http: pawlhttp executes handlers in a process without an engine, serves an engine, and is a client of a server.
package served

import (
	"context"

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

// Remote is what a client needs of a server.
type Remote interface {
	api.Service
	api.Updates
	// StartNamed starts a workflow that the server knows by its name. Errors: those of Start, CodeNotFound.
	StartNamed(ctx context.Context, workflow string, r api.StartRequest) (api.Started, error)
}

// Engine is an engine as a server needs it.
type Engine interface {
	api.Service
	api.Updates
	// Workflows returns the names of the workflows that it can start.
	Workflows() []string
	// Find returns the definition of the workflow with a name. Errors: CodeNotFound.
	Find(ctx context.Context, name string) (api.Definition, error)
}

// Shared is an engine that shares its database with those of other processes.
type Shared struct {
	Engine     any    // a *pawl.Engine
	Serves     Engine // the service of its own runs
	Own        *service.Embedded
	Partitions *engine.Engine
	// Relay delivers what callers write into the journal's database to a client, a pawl.Client. turn reports whether
	// this engine does so at present.
	Relay func(client any, turn func() bool)
}

// Open opens an engine that owns no partitions yet. cfg is a pawl.Config. share makes the engine one of several.
type Open func(ctx context.Context, cfg any, share func(*engine.Config) error) (Shared, error)

var (
	shared    Open
	executors Executors
	connect   func(s Remote, cfg any) any
	served    func(engine any) Engine
	program   Program
)

// Program makes what serves workflows of a server in a process without an engine. cfg is a pawl.Config. stop unwinds
// the bodies.
type Program func(ctx context.Context, cfg any) (of lease.Program, stop func(), err error)

// Register tells how executors, clients, engines and programs are made, and engines that share a database. Package
// pawl does so before any other code runs.
func Register(e Executors, c func(s Remote, cfg any) any, of func(engine any) Engine, p Program,
	o Open,
) {
	executors, connect, served, program, shared = e, c, of, p, o
}

// OpenShared opens an engine that shares its database.
func OpenShared(ctx context.Context, cfg any, share func(*engine.Config) error) (Shared, error) {
	return shared(ctx, cfg, share)
}

// Serving makes what serves workflows.
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
func Connect(s Remote, cfg any) any { return connect(s, cfg) }

// Of returns an engine, a *pawl.Engine, as a server needs it.
func Of(e any) Engine { return served(e) }
