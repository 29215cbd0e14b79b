package pawl

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/fake"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// host is what an engine's workflows share: their definitions, the codec, and what runs their bodies.
type host struct {
	bodies      *body.Host
	log         *slog.Logger
	observer    Observer
	intercept   Interceptor
	propagators []Propagator
	codec       Codec
	maxPayload  int
	grace       time.Duration
	queues      map[string]policy.QueueLimits
	fakes       fake.Table // of a test; nil: none

	mu        sync.Mutex
	workflows map[string]*registered
}

// registered is a workflow that the engine knows.
type registered struct {
	*definition
	body    *body.Workflow // nil: a document decides it, or another program has it
	standIn *body.Workflow // of a workflow without a body, for a test that fakes it
}

// newHost returns a host without workflows. The context's values are those of the bodies' contexts.
func newHost(ctx context.Context, cfg Config) *host {
	h := &host{
		log: cfg.Log, codec: cfg.Codec, maxPayload: cfg.MaxPayload, grace: cfg.Grace, observer: cfg.Observer,
		intercept: cfg.Intercept, propagators: cfg.Propagators, queues: cfg.Queues, fakes: fake.From(ctx),
		workflows: map[string]*registered{},
	}
	lost := errors.New("the step ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
	h.bodies = body.NewHost(ctx, body.Config{
		Log: cfg.Log, TaskLimit: cfg.TaskTimeout, Grace: cfg.Grace, Workflow: h.body, StuckError: stuckError,
		Lost: worker.Result{Failure: failureOf(lost)},
		Attempt: func(ctx context.Context, t core.Task, alive worker.Alive, fn body.Func) worker.Result {
			return h.perform(h.attempt(ctx, t, alive, h.codec), fn)
		},
		Stopped: h.bodyStopped,
	})
	return h
}

// stuckError tells users why a body cannot go on.
func stuckError(s *body.Stuck) error {
	switch s.Why {
	case body.Changed:
		return &ChangedError{Run: s.Run.String(), Workflow: s.Workflow, Recorded: s.Recorded, Asked: s.Asked}
	case body.Unreadable:
		return &ChangedError{
			Run: s.Run.String(), Workflow: s.Workflow, Recorded: s.Recorded, Asked: s.Asked, Err: s.Err,
		}
	case body.Unencodable:
		return fmt.Errorf("run %s of workflow %q waits for its codec, and its body is called again: %w", s.Run,
			s.Workflow, s.Err)
	case body.Overdue:
		return &TaskTimeoutError{Run: s.Run.String(), Workflow: s.Workflow, Limit: s.Limit, Stack: s.Stack}
	default:
		return fmt.Errorf("workflow %q is not registered here: pass it to Config.Workflows or Engine.Register",
			s.Workflow)
	}
}

// definitionID is the id of a Go workflow's definition, made from its name. That a body has changed shows in the keys
// of its steps.
func definitionID(name string) core.DefinitionID {
	sum := sha256.Sum256([]byte("go\x00" + name))
	return core.DefinitionID(sum[:16])
}

func source(name string) journal.Definition {
	src, err := json.Marshal(map[string]string{"kind": journal.KindGo, "name": name})
	if err != nil {
		src = []byte("{}") // a map of strings always can be written
	}
	return journal.Definition{ID: definitionID(name), Kind: journal.KindGo, Name: name, Source: src}
}

// compile makes the machine's definition of a function. The workflow may be registered later.
func (h *host) compile(d journal.Definition) (*core.Definition, error) {
	return h.bodies.Definition(d.Name), nil
}

// stored finds what is stored of a workflow that the program knows by name.
func (h *host) stored(name string) (journal.Definition, error) {
	d := h.definition(name)
	if d == nil {
		return journal.Definition{}, errors.New("it is not registered here: pass it to Config.Workflows or " +
			"Engine.Register")
	}
	if d.document != nil && h.fakes != nil && h.fakes.Has(fake.Target{Kind: fake.Child, Name: name}) {
		return source(name), nil
	}
	return d.source(), nil
}

// definition finds a workflow by its name; nil: it is not registered.
func (h *host) definition(name string) *definition {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.workflows[name]; r != nil {
		return r.definition
	}
	return nil
}

// body finds the body of a workflow; nil: it is not registered, or has none.
func (h *host) body(name string) *body.Workflow {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.workflows[name]; {
	case r == nil && h.fakes != nil: // what stands in for it may be there before a body names it
		return h.fakedBody(h.registered(&definition{name: name, elsewhere: true}))
	case r == nil:
		return nil
	case r.body == nil:
		return h.fakedBody(r)
	default:
		return r.body
	}
}

// register makes a workflow known. Bodies of runs that waited for it are called.
func (h *host) register(d *definition) error {
	if d.err != nil {
		return d.err
	}
	if known, err := h.add(d); known || err != nil {
		return err
	}
	h.bodies.Registered()
	return nil
}

// add reports whether the workflow was known before.
func (h *host) add(d *definition) (known bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.workflows[d.name]; {
	case r != nil && d.elsewhere:
		return true, nil
	case r == nil || r.elsewhere && d.document == nil:
		h.workflows[d.name] = h.registered(d)
		return false, nil
	case !r.same(d):
		return false, fmt.Errorf("pawl: workflow %q is defined twice: give one of the two another name", d.name)
	}
	return true, nil
}

// registered makes a definition known.
func (h *host) registered(d *definition) *registered {
	w := h.bodyOf(d)
	if d.document != nil || d.elsewhere {
		return &registered{definition: d, standIn: w}
	}
	return &registered{definition: d, body: w}
}

// bodyOf is a workflow as its host needs it.
func (h *host) bodyOf(d *definition) *body.Workflow {
	w := &body.Workflow{
		Body: func(t *body.Thread) { h.callBody(d, t) }, TaskLimit: d.task, Hooks: map[string]*body.Hook{},
		Retry: d.retry, Execution: d.execution, Run: d.runLimit, Cron: d.cron,
		Compensation: d.compensation, Queue: d.queue,
	}
	for name, hook := range d.hooks {
		w.Hooks[name] = &body.Hook{
			Spec: hook.spec,
			Call: func(ctx context.Context, p body.HookPayload) ([]byte, error) {
				if h.callsFake(ctx) {
					return nil, nil
				}
				return h.fakedOr(h.codec, nil, func(ctx context.Context) ([]byte, error) {
					return nil, hook.call(ctx, h.codec, p)
				})(ctx)
			},
		}
	}
	return w
}

// callBody calls the workflow's function and closes the run by what it returns.
func (h *host) callBody(d *definition, t *body.Thread) {
	b := &branch{Thread: t, host: h, def: d, values: h.carried(t, t.Run(), t.Head().Headers)}
	var out []byte
	err := errors.New("the body ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
	defer func() {
		if v := recover(); v != nil {
			err = newPanic(v, debug.Stack())
		}
		h.closeRun(b, out, err)
	}()
	run := h.standInFor(d, t)
	if run == nil {
		run = d.run
	}
	if run == nil {
		err = fmt.Errorf("nothing stands in for workflow %q any more, whose function is not here", d.name)
		return
	}
	out, err = run(b, t.Head().Input)
}

// closeRun closes the run of a body that has returned.
func (h *host) closeRun(b *branch, out []byte, err error) {
	t, d := b.Thread, b.def
	for {
		invalid, over := t.Leaving()
		if over {
			t.Return(invalid, body.Outcome{}, core.Close{})
			return
		}
		end := h.closing(d, out, err, invalid)
		if t.Stop() != nil && invalid == nil && isStop(err) {
			end.Failure = nil
		}
		sealed, err := sealFailure(b, h.codec, b.at(kindFailure, ""), end.Failure)
		if passing(err) {
			t.NoteUnencodable("what the run's failure says", err)
			continue
		}
		end.Failure = sealed
		if t.Return(invalid, body.OutcomeOf(err), end) {
			return
		}
	}
}

// call runs an attempt of a task that is no local step and no hook, in the context of its worker. What stops in its own
// time may be nil.
func (h *host) call(ctx context.Context, at *attempt, own *body.Stopping, fn stepFunc) worker.Result {
	return h.bodies.Call(ctx, own, func() worker.Result { return h.perform(at, fn) })
}

// perform runs a step's function and turns what it returns into the attempt's result.
func (h *host) perform(at *attempt, fn stepFunc) worker.Result {
	out, err := h.invoke(at, fn)
	if err == nil && len(out) > h.maxPayload {
		err = h.tooLarge(fmt.Sprintf("the result of step %q", at.task.StepName), out)
	}
	if err != nil {
		return worker.Result{Failure: at.sealed(failureOf(err))}
	}
	return worker.Result{Output: out}
}

// invoke calls a step's function within the interceptor, and returns a panic as an error.
func (h *host) invoke(at *attempt, fn stepFunc) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, newPanic(v, debug.Stack())
		}
	}()
	if h.intercept == nil {
		return fn(at)
	}
	return h.around(at, fn)
}
