package pawl

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/fake"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
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
	services    map[string]policy.QueueLimits // nil: those of a server, which are not known here
	fakes       fake.Table                    // the fakes of a test; nil: none

	mu        sync.Mutex
	workflows map[string]*registered
}

// registered is a workflow that the engine knows.
type registered struct {
	*definition
	body    *body.Function // nil: a document decides it, or another program has it
	standIn *body.Function // the body that a test gives a workflow without one, to fake it
}

// newHost returns a host without workflows. The context's values are those of the bodies' contexts.
func newHost(ctx context.Context, cfg Config) *host { return newHostFor(ctx, cfg, false) }

// newHostFor returns a host. rehearsal says that bodies are only replayed.
func newHostFor(ctx context.Context, cfg Config, rehearsal bool) *host {
	h := &host{
		log: cfg.Log, codec: cfg.Codec, maxPayload: cfg.MaxPayload, grace: cfg.Grace, observer: cfg.Observer,
		intercept: cfg.Intercept, propagators: cfg.Propagators, queues: cfg.Queues, fakes: fake.From(ctx),
		workflows: map[string]*registered{},
	}
	lost := errors.New("the step ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
	h.bodies = body.NewHost(ctx, body.Config{
		Log: cfg.Log, TaskLimit: cfg.TaskTimeout, Grace: cfg.Grace, Workflow: h.body, StuckError: stuckError,
		Lost: worker.Result{Failure: failureOf(lost)},
		Attempt: func(ctx context.Context, t *core.Task, alive worker.Alive, fn body.Func) worker.Result {
			return h.perform(h.attempt(ctx, t, alive, h.codec), fn)
		},
		Stopped: h.bodyStopped, Rehearsal: rehearsal,
	})
	return h
}

// stuckError tells users why a body cannot go on.
func stuckError(s *body.Stuck) error {
	switch s.Why {
	case body.Changed:
		return &ChangedError{Run: s.Run.String(), Workflow: s.Workflow, Recorded: s.Recorded, Asked: s.Asked}
	case body.Unreadable:
		return &UnreadableError{
			Run: s.Run.String(), Workflow: s.Workflow, Value: s.Recorded, Type: s.Asked, Err: s.Err,
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

// definitionID returns the id of a Go workflow's definition, made from its name. That a body has changed shows in the
// keys of its steps.
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
func (h *host) body(name string) *body.Function {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.workflows[name]; {
	case r == nil && h.fakes != nil: // its fake may be there before a body names it
		return h.fakedBody(h.registered(&definition{name: name, external: true}))
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
	case r != nil && d.external:
		return true, nil
	case r == nil || r.external && d.document == nil:
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
	if d.document != nil || d.external {
		return &registered{definition: d, standIn: w}
	}
	return &registered{definition: d, body: w}
}

// bodyOf returns a workflow as its host needs it.
func (h *host) bodyOf(d *definition) *body.Function {
	w := &body.Function{
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

// unread returns the error of a body that has returned: its own, or that of a branch that panicked and that nobody has
// waited for. What other branches returned that nobody has waited for is logged.
func (h *host) unread(b *branch, err error) error {
	all := b.Unread()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		failed := all[name]
		var bug *PanicError
		var next *continueError
		switch {
		case isStop(failed):
		case errors.As(failed, &bug) && (err == nil || errors.As(err, &next)):
			err = fmt.Errorf("branch %q, for which nobody has waited: %w", name, failed)
		default:
			h.log.Warn("a branch returned an error, and nobody has waited for it",
				"run", b.Run().String(), "branch", name, "error", failed)
		}
	}
	return err
}

// closeRun closes the run of a body that has returned.
func (h *host) closeRun(b *branch, out []byte, err error) {
	t, d := b.Thread, b.def
	if _, over := t.Leaving(); !over {
		err = h.unread(b, err)
	}
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
		if isTransient(err) {
			t.NoteUnencodable("what the run's failure says", err)
			continue
		}
		end.Failure = sealed
		if t.Return(invalid, body.OutcomeOf(err), end) {
			if end.Phase == core.RunSucceeded {
				d.reached.tell(d, h.log)
			}
			return
		}
	}
}

// kinds returns the kinds of workflows that a program can run without another package: functions. Flows are refused
// until package pawlflow adds them.
func (h *host) kinds() map[string]engine.Kind {
	return map[string]engine.Kind{
		journal.KindFlow: {Refuse: notLinked},
		journal.KindGo: {
			Compile: h.compile, Bodies: h.bodies,
			Child: kind.Children(func(_ core.DefinitionID, name string) (journal.Definition, error) {
				return h.stored(name)
			}),
		},
	}
}

func notLinked(d journal.Definition) error {
	return fmt.Errorf("workflow %q is a flow document, and this program does not link what runs them: "+
		`import _ "github.com/pawl-dev/pawl/pawlflow"`, d.Name)
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
		return worker.Result{Failure: at.encodedFailure(failureOf(err))}
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

// documented executes what steps do without a function: processes and requests. An interceptor may stand in for
// them.
type documented struct {
	host     *host
	executor worker.Executor
}

// Announces says that the host does it.
func (d *documented) Announces() {}

func (d *documented) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	at := d.host.attempt(ctx, t, alive, JSON{})
	abandoned := false
	var own body.Stopping
	res := d.host.call(ctx, at, &own, d.host.fakedOr(JSON{}, nil, func(ctx context.Context) ([]byte, error) {
		var r worker.Result
		sent := *t
		sent.Headers = d.host.forwarded(ctx, t)
		own.Work(func() { r = d.executor.Execute(ctx, &sent, alive) })
		abandoned = r.Abandoned
		return r.Output, decodeFailure(r.Failure)
	}))
	res.Abandoned = abandoned
	return res
}

// documented wraps the executors of documents' steps with the interceptor. Executors whose steps take
// no time stay as they are, since the pool has to recognise them.
func (h *host) documented(executors map[string]worker.Executor) map[string]worker.Executor {
	for name, executor := range executors {
		if _, instant := executor.(worker.Instant); !instant {
			executors[name] = &documented{h, executor}
		}
	}
	return executors
}

// Package pawltest replaces steps, handlers and workflows with the fakes of host.fakes, which is nil outside of tests.

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
func (h *host) fakedHandler(r *handlerExecutor, t *core.Task) stepFunc {
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
func (e *local) serveFake(name string) error {
	gone := handler{name, func(context.Context, Codec, []byte) ([]byte, error) {
		return nil, fmt.Errorf("nothing stands in for handler %q any more", name)
	}}
	executors, limits := map[string]worker.Executor{}, map[string]int{}
	for taskType, codec := range map[string]Codec{body.HandlerType(name): e.host.codec, name: JSON{}} {
		if taskType == name && e.node.Executes("", name) {
			continue // it is called like what the engine does itself, such as exec
		}
		executors[taskType], limits[taskType] = &handlerExecutor{e.host, gone, codec}, -1
	}
	return e.node.ServeAnyQueue(worker.PoolConfig{
		Executors: executors, Slots: limits, Reporter: e.host.bodies,
	})
}

// attachFakes gives the fakes their engine.
func (e *local) attachFakes() {
	if e.host.fakes != nil {
		e.host.fakes.Attach(fake.EngineHooks{Serve: e.serveFake, Registered: e.host.bodies.Registered})
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

// standIn executes the body of a run whose workflow is faked: one step that calls the fake. So the fake is called once,
// also if the body is called again.
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
func (h *host) fakedBody(r *registered) *body.Function {
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
