// Package served is the door through which package pawlhttp takes the handlers of package pawl: it executes them in a
// process without an engine. So the root package need not link net/http.
package served

import (
	"context"

	"github.com/pawl-dev/pawl/internal/worker"
)

// Executors makes what executes handlers, by task type. cfg is a pawl.Config, handlers are a []pawl.AnyHandler.
type Executors func(
	ctx context.Context, cfg any, queue string, slots int, handlers any,
) (all map[string]worker.Executor, stop func(), err error)

var registered Executors

// Register tells how executors are made. Package pawl does so before any other code runs.
func Register(e Executors) { registered = e }

// Make makes executors.
func Make(ctx context.Context, cfg any, queue string, slots int, handlers any) (
	map[string]worker.Executor, func(), error,
) {
	return registered(ctx, cfg, queue, slots, handlers)
}
