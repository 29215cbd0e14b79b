package pawl

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/fake"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Handler is a function that a process serves on a task queue, and that bodies call by its name. Make one with
// [Handle], or with [HandlerRef] for one that another program serves.
type Handler[In, Out any] struct{ untyped handler }

// handler is a Handler without its types.
type handler struct {
	name string
	run  func(ctx context.Context, c Codec, input []byte) ([]byte, error) // nil: another program has it
}

// AnyHandler is a [Handler] of any types.
type AnyHandler interface{ handler() handler }

func (h Handler[In, Out]) handler() handler { return h.untyped }

// Name returns the name under which bodies call the handler.
func (h Handler[In, Out]) Name() string { return h.untyped.name }

// Handle makes a handler of a function: what [Handler.Call] runs, and a flow's task step by its type. The same rules
// hold as for a [Step]'s function.
func Handle[In, Out any](name string, fn func(ctx context.Context, in In) (Out, error)) Handler[In, Out] {
	if fn == nil {
		return HandlerRef[In, Out](name) // Serve refuses it
	}
	what, result := "the input of handler "+name, payloadName{what: "the result of handler " + name}
	return Handler[In, Out]{handler{name, func(ctx context.Context, c Codec, input []byte) ([]byte, error) {
		in, err := decodeInput[In](ctx, c, what, input)
		if err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return encodeOutput(ctx, c, result, out)
	}}}
}

// HandlerRef names a handler that another program serves, with the types that it has there.
func HandlerRef[In, Out any](name string) Handler[In, Out] {
	return Handler[In, Out]{handler{name: name}}
}

// Call runs the handler as a step of that name, in a process that serves it; see [Engine.Serve]. [Queue] says on which
// task queue. The same rules hold as for [Step].
func (h Handler[In, Out]) Call(ctx Context, name string, in In, opts ...StepOption) (Out, error) {
	return h.CallAsync(ctx, name, in, opts...).Get(ctx)
}

// CallAsync begins a Call and does not wait for it.
func (h Handler[In, Out]) CallAsync(ctx Context, name string, in In, opts ...StepOption) *Future[Out] {
	b := branchOf(ctx)
	o, err := b.options(core.KindTask, name, opts)
	if err == nil {
		err = wrap("handler", checkName(h.untyped.name))
	}
	if err == nil {
		err = b.host.asked(name, fake.Call, h.untyped.name, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	}
	spec := &core.StepSpec{Kind: core.KindTask, Type: body.HandlerType(h.untyped.name)}
	if err == nil {
		spec.Input, err = b.encode(b.host.codec, fmt.Sprintf("the input of step %q", name), b.at(kindInput, name), in)
	}
	return begin[Out](ctx, name, spec, core.Schedule{}, nil, o, err)
}

// Serve makes this process execute the calls of a task queue, and the tasks that flows (package pawlflow) send to it.
// At most slots of each handler run at once. Calls that no process serves wait; [QueueTimeout] bounds that. Tasks that
// name no queue are in the queue "". A handler can be served once for each queue.
//
// In a cluster a node executes the calls of the runs that it has, so every node serves the same queues.
func (e *Engine) Serve(queue string, slots int, handlers ...AnyHandler) error {
	if e == nil || e.own == nil {
		return errNilClient
	}
	return e.own.serve(queue, slots, handlers)
}

// serve executes the calls of a task queue.
func (e *local) serve(queue string, slots int, handlers []AnyHandler) error {
	executors, err := e.host.executorsOf(queue, slots, handlers)
	if err != nil {
		return err
	}
	limits := map[string]int{}
	for name := range executors {
		limits[name] = slots
	}
	for _, one := range handlers {
		if h := one.handler(); e.node.Executes("", h.name) && !e.node.Executes("", body.HandlerType(h.name)) {
			return invalid(errors.New("it is called like what the engine does itself: give it another name"),
				"serve %q: handler %q", queue, h.name)
		}
	}
	err = e.node.Serve(worker.PoolConfig{
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

// executorsOf makes the executors of handlers, by task type: bodies call them by a type of their own, flows by their
// names.
func (h *host) executorsOf(queue string, slots int, handlers []AnyHandler) (map[string]worker.Executor, error) {
	if slots <= 0 {
		return nil, invalid(errors.New("give at least 1 slot"), "serve %q: %d slots", queue, slots)
	}
	executors := map[string]worker.Executor{}
	for _, one := range handlers {
		if one == nil {
			return nil, invalid(errors.New("a handler is nil: make one with Handle"), "serve %q", queue)
		}
		own := one.handler()
		name := body.HandlerType(own.name)
		if err := checkName(own.name); err != nil {
			return nil, invalid(err, "serve %q", queue)
		}
		if own.run == nil {
			return nil, invalid(errNoFunction, "serve %q: handler %q", queue, own.name)
		}
		if executors[name] != nil {
			return nil, invalid(errors.New("it is given twice"), "serve %q: handler %q", queue, own.name)
		}
		executors[name], executors[own.name] = &handlerExecutor{h, own, h.codec}, &handlerExecutor{h, own, JSON{}}
	}
	return executors, nil
}

// handlerExecutor executes a handler.
type handlerExecutor struct {
	host    *host
	handler handler
	codec   Codec
}

// Announces says that the host does it.
func (r *handlerExecutor) Announces() {}

func (r *handlerExecutor) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	return r.host.call(ctx, r.host.attempt(ctx, t, alive, r.codec), nil, r.host.fakedHandler(r, t))
}
