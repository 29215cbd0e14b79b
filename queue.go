package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Handler is a function that [Call] names. Make one with [Handle].
type Handler struct {
	name string
	run  func(ctx context.Context, c Codec, input []byte) ([]byte, error)
}

// Handle makes a handler of a function: what [Call] names, and a flow's task step by its type. The same rules hold as
// for a [Step]'s function.
func Handle[In, Out any](name string, fn func(ctx context.Context, in In) (Out, error)) Handler {
	if fn == nil {
		return Handler{name: name} // Serve refuses it
	}
	return Handler{name, func(ctx context.Context, c Codec, input []byte) ([]byte, error) {
		in, err := decode[In](c, "the input of handler "+name, input)
		if err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return encode(c, "the result of handler "+name, out)
	}}
}

// Serve makes this process execute the calls of a task queue, and the tasks that flows (package pawlflow) send to it.
// At most slots of each handler run at once. Calls that no process serves wait; [QueueTimeout] bounds that. Tasks that
// name no queue are in the queue "". A handler can be served once for each queue.
func (e *Engine) Serve(queue string, slots int, handlers ...Handler) error {
	if slots <= 0 {
		return invalid(errors.New("give at least 1 slot"), "serve %q: %d slots", queue, slots)
	}
	executors, limits := map[string]worker.Executor{}, map[string]int{}
	for _, h := range handlers {
		name := body.HandlerType(h.name)
		if err := checkName(h.name); err != nil {
			return invalid(err, "serve %q", queue)
		}
		if h.run == nil {
			return invalid(errNoFunction, "serve %q: handler %q", queue, h.name)
		}
		if executors[name] != nil {
			return invalid(errors.New("it is given twice"), "serve %q: handler %q", queue, h.name)
		}
		if e.node.Executes("", h.name) && !e.node.Executes("", name) {
			return invalid(errors.New("it is called like what the engine does itself: give it another name"),
				"serve %q: handler %q", queue, h.name)
		}
		executors[name], limits[name] = &remote{e.host, h, e.host.codec}, slots
		executors[h.name], limits[h.name] = &remote{e.host, h, JSON{}}, slots
	}
	err := e.node.Serve(worker.PoolConfig{
		Executors: executors, Slots: limits, Queues: []string{queue}, Reporter: e.host.bodies,
	})
	var taken *node.TakenError
	switch {
	case errors.As(err, &taken):
		name := strings.TrimPrefix(taken.Type, body.HandlerType(""))
		return invalid(errors.New("it is served already: give it all its slots at once"),
			"serve %q: handler %q", queue, name)
	case err != nil:
		return fmt.Errorf("pawl: serve %q: %w", queue, err)
	}
	return nil
}

// remote executes a handler.
type remote struct {
	host    *host
	handler Handler
	codec   Codec
}

// Announces says that the host does it.
func (r *remote) Announces() {}

func (r *remote) Execute(ctx context.Context, t core.Task, alive worker.Alive) worker.Result {
	return r.host.call(r.host.attempt(ctx, t, alive, r.codec), nil, func(ctx context.Context) ([]byte, error) {
		return r.handler.run(ctx, r.codec, t.Payload)
	})
}
