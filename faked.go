package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/fake"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// What package pawltest puts in the place of steps, handlers and workflows. Outside of tests host.fakes is nil.

// fakeOf finds what stands in for the function of the attempt that ctx belongs to; nil: nothing does. out is the type
// of the step's result; nil: not known.
func (h *host) fakeOf(ctx context.Context, out reflect.Type) fake.Func {
	at := attemptOf(ctx)
	if h.fakes == nil || at == nil {
		return nil
	}
	run := at.task.Token.Run.String()
	return h.fakes.Find(fake.Target{Kind: fake.Step, Name: at.task.StepName, Run: run, Out: out})
}

// answer calls a fake and encodes what it returns.
func answer(ctx context.Context, c Codec, f fake.Func, input []byte) ([]byte, error) {
	out, err := f(ctx, func(v any) error {
		return readInto(ctx, c, place{kind: kindInput}, input, v)
	})
	if err != nil {
		return nil, err
	}
	return encodeOutput(ctx, c, payloadName{what: "what a fake returned"}, out)
}

// fakedOr returns the function of an attempt, or what stands in for it. out is the type of its result; nil: not known.
func (h *host) fakedOr(c Codec, out reflect.Type, fn stepFunc) stepFunc {
	if h.fakes == nil {
		return fn
	}
	return func(ctx context.Context) ([]byte, error) {
		if f := h.fakeOf(ctx, out); f != nil {
			return answer(ctx, c, f, nil)
		}
		return fn(ctx)
	}
}

// fakedHandler returns what runs a handler, or what stands in for it or for the step that calls it.
func (h *host) fakedHandler(r *remote, t core.Task) stepFunc {
	return func(ctx context.Context) ([]byte, error) {
		if h.fakes != nil {
			f := h.fakes.Find(fake.Target{Kind: fake.Call, Name: r.handler.name, Run: t.Token.Run.String()})
			if f == nil {
				f = h.fakeOf(ctx, nil)
			}
			if f != nil {
				return answer(ctx, r.codec, f, t.Payload)
			}
		}
		return r.handler.run(ctx, r.codec, t.Payload)
	}
}

// asked tells the fakes what a body calls. It returns an error if a fake does not fit.
func (h *host) asked(step string, kind fake.Kind, name string, in, out reflect.Type) error {
	if h.fakes == nil {
		return nil
	}
	return h.fakes.Asked(step, fake.Target{Kind: kind, Name: name, In: in, Out: out})
}

// serveFake executes the calls of a handler on all task queues, for what stands in for it.
func (e *Engine) serveFake(name string) error {
	gone := handler{name, func(context.Context, Codec, []byte) ([]byte, error) {
		return nil, fmt.Errorf("nothing stands in for handler %q any more", name)
	}}
	executors, limits := map[string]worker.Executor{}, map[string]int{}
	for taskType, codec := range map[string]Codec{body.HandlerType(name): e.host.codec, name: JSON{}} {
		if taskType == name && e.node.Executes("", name) {
			continue // it is called like what the engine does itself, such as exec
		}
		executors[taskType], limits[taskType] = &remote{e.host, gone, codec}, -1
	}
	return e.node.ServeAnyQueue(worker.PoolConfig{
		Executors: executors, Slots: limits, Reporter: e.host.bodies,
	})
}

// attachFakes gives the fakes their engine.
func (e *Engine) attachFakes() {
	if e.host.fakes != nil {
		e.host.fakes.Attach(fake.Engine{Serve: e.serveFake, Registered: e.host.bodies.Registered})
	}
}

// standInFor returns what decides a run of the workflow instead of its function; nil: nothing does.
func (h *host) standInFor(d *definition, t *body.Thread) func(b *branch, input []byte) ([]byte, error) {
	if h.fakes == nil || t.Head().Parent.Run == (core.RunID{}) && d.run != nil {
		return nil
	}
	f := h.fakes.Find(fake.Target{Kind: fake.Child, Name: d.name, Run: t.Run().String()})
	if f == nil {
		return nil
	}
	return func(b *branch, input []byte) ([]byte, error) { return standIn(b, d.codec(h.codec), f, input) }
}

// standIn is the body of a run whose workflow is faked: one step that calls the fake. So the fake is called once, also
// if the body is called again.
func standIn(b *branch, c Codec, f fake.Func, input []byte) ([]byte, error) {
	fn := func(ctx context.Context) ([]byte, error) { return answer(ctx, c, f, input) }
	step := begin[json.RawMessage](b, "fake", &core.StepSpec{Kind: core.KindTask, Type: body.TypeLocal},
		core.Schedule{}, fn, stepOptions{}, nil)
	step.codec = JSON{} // it is encoded already
	out, err := step.Get(b)
	var failed *StepError
	if errors.As(err, &failed) && failed.Phase == client.PhaseFailed && failed.own != nil && failed.Failure != nil &&
		failed.Failure.Kind != policy.KindLost {
		return nil, failed.own // as the function itself would have returned it
	}
	return out, err
}

// fakedBody returns what calls the bodies of a workflow that has no function here; nil: nothing stands in for it.
func (h *host) fakedBody(r *registered) *body.Workflow {
	if h.fakes == nil || !h.fakes.Has(fake.Target{Kind: fake.Child, Name: r.name}) {
		return nil
	}
	return r.standIn
}

// callsFake reports whether a hook belongs to a run whose workflow is faked: the hook is not called then.
func (h *host) callsFake(ctx context.Context) bool {
	at := attemptOf(ctx)
	return h.fakes != nil && at != nil && h.fakes.StandsIn(at.task.Token.Run.String())
}
