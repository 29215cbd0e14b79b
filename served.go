package pawl

import (
	"context"

	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/worker"
)

func init() { served.Register(withoutEngine, connect, toServe) }

// withoutEngine makes what executes handlers in a process without an engine.
func withoutEngine(ctx context.Context, given any, queue string, slots int, handlers any) (
	map[string]worker.Executor, func(), error,
) {
	cfg := given.(Config)
	all := handlers.([]AnyHandler)
	if err := cfg.check(); err != nil {
		return nil, nil, invalid(err, "serve %q", queue)
	}
	h := newHost(ctx, cfg.withDefaults())
	executors, err := h.served(queue, slots, all)
	if err != nil {
		h.bodies.Close()
		return nil, nil, err
	}
	return executors, h.bodies.Close, nil
}
