package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/fake"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/policy"
)

// Step runs fn, durably: once it has succeeded it is not run again, even after a crash, and Step returns
// the recorded result. fn may do I/O. It should return when its context is done: a limit has ended, or the run was
// cancelled. The context's deadline tells how much of the step's time is left.
//
// The error is a [*StepError], or says what is wrong with the call.
func Step[Out any](ctx Context, name string, fn func(ctx context.Context) (Out, error),
	opts ...StepOption,
) (Out, error) {
	return Async(ctx, name, fn, opts...).Get(ctx)
}

// Do works as Step, for a function without a result.
func Do(ctx Context, name string, fn func(ctx context.Context) error, opts ...StepOption) error {
	var run func(ctx context.Context) (struct{}, error)
	if fn != nil {
		run = func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }
	}
	_, err := Step(ctx, name, run, opts...)
	return err
}

// Async begins a step and does not wait for it.
func Async[Out any](ctx Context, name string, fn func(ctx context.Context) (Out, error),
	opts ...StepOption,
) *Future[Out] {
	codec := branchOf(ctx).host.codec
	run := branchOf(ctx).host.fakedOr(codec, reflect.TypeFor[Out](), func(ctx context.Context) ([]byte, error) {
		out, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return encodeOutput(ctx, codec, payloadName{what: "the result of step", name: name}, out)
	})
	o, err := branchOf(ctx).options(core.KindTask, name, opts)
	switch {
	case err == nil && fn == nil:
		err = errNoFunction
	case err == nil && o.queue != "" && !branchOf(ctx).host.knows(o.queue):
		err = fmt.Errorf("a function in the body cannot leave its process: use Handler.Call for queue %q, or give "+
			"the queue limits in Config.Queues", o.queue)
	}
	return begin[Out](ctx, name, &core.StepSpec{Kind: core.KindTask, Type: body.TypeLocal},
		core.Schedule{}, run, o, err)
}

// Child runs another workflow as a run of its own and waits for its result. It inherits what is left of this run's
// time, and is cancelled when this run ends first; see [Abandon] and [TerminateWithParent].
func Child[In, Out any](ctx Context, name string, w *Workflow[In, Out], in In, opts ...ChildOption) (Out, error) {
	return ChildAsync(ctx, name, w, in, opts...).Get(ctx)
}

// ChildAsync begins a child run and does not wait for it.
func ChildAsync[In, Out any](ctx Context, name string, w *Workflow[In, Out], in In, opts ...ChildOption) *Future[Out] {
	b := branchOf(ctx)
	if w == nil {
		return failed[Out](b.invalid(errors.New("it has no workflow"), "step %q", name))
	}
	own := make([]StepOption, len(opts))
	for i, opt := range opts {
		if opt != nil {
			own[i] = opt.child
		}
	}
	o, err := b.options(core.KindChild, name, own)
	if err == nil {
		err = b.host.register(w.definition())
	}
	if err == nil {
		err = b.host.asked(name, fake.Child, w.definition().name, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	}
	codec := w.definition().codec(b.host.codec)
	var input []byte
	if err == nil {
		what := fmt.Sprintf("the input of child %q", name)
		input, err = b.encode(codec, what, place{kind: kindInput, workflow: w.definition().name}, in)
	}
	spec := &core.StepSpec{Kind: core.KindChild, Type: w.definition().name, Spread: o.spread}
	if err == nil {
		spec.Input, err = json.Marshal(map[string]any{
			"name":  w.definition().name,
			"input": json.RawMessage(input), "close": o.close,
		})
	}
	f := begin[Out](ctx, name, spec, core.Schedule{}, nil, o, err)
	f.codec = codec
	return f
}

// Sleep waits for d. Meanwhile the run needs no memory and no goroutine.
func Sleep[D Amount](ctx Context, name string, d D) error {
	_, err := SleepAsync(ctx, name, d).Get(ctx)
	return err
}

// SleepAsync begins a sleep and does not wait for its end: it is the time limit of a [Select].
func SleepAsync[D Amount](ctx Context, name string, d D) *Future[struct{}] {
	length, err := amount(d)
	return begin[struct{}](ctx, name, &core.StepSpec{Kind: core.KindSleep}, core.Schedule{For: length}, nil,
		stepOptions{}, err)
}

// SleepUntil waits until t; it returns at once if t has passed.
func SleepUntil(ctx Context, name string, t time.Time) error {
	_, err := SleepUntilAsync(ctx, name, t).Get(ctx)
	return err
}

// SleepUntilAsync begins a sleep until t and does not wait for its end: it is the deadline of a [Select].
func SleepUntilAsync(ctx Context, name string, t time.Time) *Future[struct{}] {
	cmd := core.Schedule{Until: max(policy.At(t), 1)}
	return begin[struct{}](ctx, name, &core.StepSpec{Kind: core.KindSleep}, cmd, nil, stepOptions{}, nil)
}

// options returns the options of the workflow, of its step, and of the call. An option of the call itself must have an
// effect on it; options of the workflow need not have one on every step.
func (b *branch) options(kind core.StepKind, name string, opts []StepOption) (stepOptions, error) {
	b.def.reached.note(name)
	o, err := stepPolicy(b.def.defaults, b.def.byStep[name], opts)
	if named := b.def.byStep[name]; err == nil && len(named)+len(opts) > 0 {
		own, _ := stepPolicy(named, opts)
		err = own.fit(kind)
	}
	if err == nil && o.service != "" && !b.host.knowsService(o.service) {
		err = fmt.Errorf("no service %q has limits: name it in Config.Services", o.service)
	}
	return o, err
}

// waitOptions returns the options of a wait for an event or an update.
func (b *branch) waitOptions(name string, opts []WaitOption) (stepOptions, error) {
	own := make([]StepOption, len(opts))
	for i, opt := range opts {
		own[i] = StepOption(opt)
	}
	return b.options(core.KindWait, name, own)
}

// begin asks for a step.
func begin[Out any](ctx Context, name string, spec *core.StepSpec, cmd core.Schedule, fn stepFunc,
	o stepOptions, err error,
) *Future[Out] {
	b := branchOf(ctx)
	if err == nil {
		err = checkName(name)
	}
	if err != nil {
		return failed[Out](b.invalid(err, "step %q", name))
	}
	spec.Def, spec.Policy, spec.Queue, spec.Priority = -1, o.policy, o.queue, o.priority
	o.share(spec)
	if spec.Kind == core.KindSleep && cmd.For == 0 && cmd.Until == 0 {
		cmd.Until = 1
	}
	cmd.Spec = spec
	result, err := b.Ask(name, cmd, fn)
	if err != nil {
		return failed[Out](err)
	}
	return &Future[Out]{result: result, step: true, codec: b.host.codec}
}

// knows reports whether a queue is in the configuration.
func (h *host) knows(queue string) bool {
	_, known := h.queues[queue]
	return known
}

// knowsService reports whether a service is in the configuration, or may have limits of a server or a flow.
func (h *host) knowsService(service string) bool {
	if _, known := h.services[service]; known || h.services == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.workflows {
		if r.document != nil && r.name != schedule.Workflow {
			return true
		}
	}
	return false
}
