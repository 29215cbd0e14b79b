package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/cron"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/naming"
	"github.com/pawl-dev/pawl/internal/option"
	"github.com/pawl-dev/pawl/policy"
)

// maxTask is the longest task limit: what takes longer belongs in a step.
const maxTask = 2 * time.Minute

// Definition is a workflow of any types, for [Config.Workflows] and [Engine.Register].
type Definition interface {
	// Name returns the name under which its runs are recorded.
	Name() string
	// Err returns what is wrong with the definition: a bad name, policy or hook. Register, Open and Start return it,
	// too.
	Err() error
	definition() *definition
}

// Workflow is a function from In to Out that runs durably. Make one with [Define].
type Workflow[In, Out any] struct{ def *definition }

// definition is a workflow without its types.
type definition struct {
	name      string
	err       error
	run       func(b *branch, input []byte) ([]byte, error)
	hooks     map[string]*hookDefinition
	retry     *policy.Retry
	execution *policy.Limit
	runLimit  *policy.Limit

	queue        core.RunQueue   // the queue of its runs; without a name: none
	compensation time.Duration   // 0: a minute
	task         time.Duration   // 0: the engine's; a definition may be registered with several
	cron         *cron.Timetable // nil: runs begin when they are started, and none follows
	cronSpec     *cron.Written   // as it is written
	defaults     []StepOption
	byStep       map[string][]StepOption
	reached      *reached      // the steps that bodies have asked for; nil: no step has options of its own
	document     *kind.Foreign // nil: run is the workflow
	external     bool          // another program has the function

	known atomic.Pointer[journal.Definition] // the result of source for the name; each start needs it
}

// hookDefinition is a function that runs while a run closes.
type hookDefinition struct {
	spec *core.StepSpec
	call func(ctx context.Context, c Codec, p body.HookPayload) error
	in   func() any // a zero input, to compare types at Define
}

// Option configures a workflow.
type Option func(*definition)

// Define makes a workflow of a function. The name is what its runs are recorded under: it must stay when the code
// changes. What is wrong with the name or the options is not a panic but [Workflow.Err], which Open, Register and Start
// return.
func Define[In, Out any](name string, fn func(ctx Context, in In) (Out, error), opts ...Option) *Workflow[In, Out] {
	d := &definition{name: name, hooks: map[string]*hookDefinition{}, byStep: map[string][]StepOption{}}
	d.note(checkName(name))
	d.note(applied(opts, d))
	if d.document != nil {
		d.err = invalid(d.err, "flow %q", name)
		return &Workflow[In, Out]{def: d}
	}
	if fn == nil {
		d.note(errNoFunction)
	}
	for hook, h := range d.hooks {
		if _, ok := h.in().(In); !ok && fmt.Sprintf("%T", h.in()) != fmt.Sprintf("%T", *new(In)) {
			d.note(fmt.Errorf("%s takes %T, the workflow takes %T", hook, h.in(), *new(In)))
		}
	}
	d.run = func(b *branch, input []byte) ([]byte, error) {
		codec := b.host.codec
		out, err := fn(b, recorded[In](b, codec, payloadName{what: "the input of workflow", name: name},
			b.at(kindInput, ""), input))
		if err != nil {
			return nil, err
		}
		return b.encode(codec, "the result of workflow "+name, b.at(kindOutput, ""), out)
	}
	d.err = invalid(d.err, "workflow %q", name)
	return &Workflow[In, Out]{def: d}
}

// Ref names a workflow that another program defines, with the types that it has there. It can be started, found,
// scheduled and begun as a child. Its runs wait until an engine that has the workflow opens the database. The options
// of its definition are not known here: a run that is started so has no limits but those of the start, and does not
// wait for the workflow's cron.
func Ref[In, Out any](name string) *Workflow[In, Out] {
	return &Workflow[In, Out]{def: &definition{
		name: name, err: invalid(checkName(name), "workflow %q", name), external: true,
	}}
}

// Name returns the workflow's name.
func (w *Workflow[In, Out]) Name() string { return w.definition().name }

// Err returns what is wrong with the definition; nil: nothing.
func (w *Workflow[In, Out]) Err() error { return w.definition().err }

func (w *Workflow[In, Out]) definition() *definition {
	if w == nil || w.def == nil {
		return undefined
	}
	return w.def
}

// undefined stands for a workflow that nobody has made.
var undefined = &definition{err: &invalidError{errors.New("pawl: the workflow is nil: make one with Define")}}

// missingDefinition returns an error for a workflow that is not there.
func missingDefinition(w Definition) error {
	if w == nil || w.definition() == undefined {
		return undefined.err
	}
	return nil
}

// documentOption puts a document in the place of the function. err is what is wrong with it.
func documentOption(w *kind.Foreign, err error) Option {
	if err == nil {
		err = checkTypes(w.Definition)
	}
	return func(d *definition) {
		d.note(err)
		d.document = w
		if w == nil {
			d.document = &kind.Foreign{}
		}
	}
}

// checkTypes refuses tasks that would be taken for a function's own.
func checkTypes(def *core.Definition) error {
	for _, spec := range def.Specs {
		if spec.Type == body.TypeLocal || spec.Type == body.TypeHook || body.Notes(spec.Type) {
			return fmt.Errorf("step %q: tasks of the type %q are what the engine does itself: "+
				"give the type another name", spec.Name, spec.Type)
		}
	}
	return nil
}

// codec returns the codec of the workflow's values.
func (d *definition) codec(c Codec) Codec {
	if d.document != nil {
		return JSON{}
	}
	return c
}

// same reports whether two definitions are equal.
func (d *definition) same(o *definition) bool {
	return d == o || d.document != nil && o.document != nil && d.document.Source.ID == o.document.Source.ID
}

// source returns what is stored of the workflow with its runs.
func (d *definition) source() journal.Definition {
	if d.document != nil {
		return d.document.Source
	}
	known := d.known.Load()
	if known == nil {
		s := source(d.name)
		known = &s
		d.known.Store(known)
	}
	return *known
}

// begin returns what the workflow says about a run with an input. A document has limits of its own and defaults of the
// input, which it checks.
func (d *definition) begin(input []byte) (core.Start, error) {
	if d.document == nil {
		return core.Start{Input: input}, nil
	}
	s, err := d.document.Begin(input)
	return s, invalid(err, "start %q", d.name)
}

func (d *definition) note(err error) {
	if err != nil {
		d.err = errors.Join(d.err, err)
	}
}

var errNoFunction = errors.New("it has no function")

// checkName refuses the characters that keys are built with, and those that no name may have.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case strings.ContainsAny(name, "/#[]\n"):
		return fmt.Errorf("the name %q contains one of / # [ ] or a line break, which Pawl uses in keys", name)
	}
	return naming.Check("the name", name, 200)
}

// RunTimeout bounds each run of the workflow (run.run). A run that follows by retry or continuation gets all of it
// again.
func RunTimeout[D Amount](after D, opts ...LimitOption) Option {
	l, err := limitOf(policy.LimitRun, after, opts)
	return func(d *definition) {
		d.note(wrap("run timeout", err))
		d.runLimit = l
	}
}

// ExecutionTimeout bounds a run with its retries and continuations (run.execution).
func ExecutionTimeout[D Amount](after D, opts ...LimitOption) Option {
	l, err := limitOf(policy.LimitExecution, after, opts)
	return func(d *definition) {
		d.note(wrap("execution timeout", err))
		d.execution = l
	}
}

// TaskTimeout bounds how long the body may compute before it comes to its next step, each time it goes on (run.task).
// Default 10s, at most 2m.
func TaskTimeout[D Amount](after D) Option {
	v, err := amount(after)
	if err == nil && (v <= 0 || v > maxTask) {
		err = fmt.Errorf("%s is not above 0 and at most %s: what takes longer belongs in a step", v, maxTask)
	}
	return func(d *definition) {
		d.note(wrap("task timeout", err))
		d.task = v
	}
}

// RunRetry starts a new run with the same input after a run that failed or timed out. Default: none.
func RunRetry[R Retries](r R) Option {
	p, err := retryOf(r)
	return func(d *definition) {
		d.note(wrap("run retry", err))
		d.retry = p
	}
}

// RunQueue starts the runs of the workflow into a queue; see Config.Queues. A run is accepted at once, and begins when
// the limits of the queue admit it. Of the runs that wait, the one with the highest priority goes first.
//
// A run keeps its place until it ends, also while it sleeps or is paused. RunTimeout counts from its beginning,
// ExecutionTimeout and RunDeadline from its start. A run that continues as new keeps the place; one that follows by
// retry or cron waits in the queue again. A child run needs no place in a queue where a run above it has one.
func RunQueue(name string, priority int32) Option {
	return func(d *definition) {
		if name == "" {
			d.note(wrap("run queue", errors.New("the name is empty")))
		}
		d.queue = core.RunQueue{Name: name, Priority: priority}
	}
}

// cronOption returns the option that Temporal's cron is: run after run of the workflow begins in one chain. A start
// makes a run that waits for the first firing, and each run is followed by one with the same input at the first firing
// after it began and has ended, however it ended. A cancel or the execution timeout ends the chain.
func cronOption(w cron.Written) Option {
	table, err := w.Parse()
	return func(d *definition) {
		d.note(wrap("cron", err))
		if err == nil {
			d.cron, d.cronSpec = &table, &w
		}
	}
}

// init gives packages of this module the options that programs do not make themselves.
func init() {
	option.Register(option.Makers{
		Cron:     func(w cron.Written) any { return cronOption(w) },
		Document: func(w any, err error) any { return documentOption(w.(*kind.Foreign), err) },
		Several:  func(opts any, err error) any { return severalOptions(opts.([]Option), err) },
		Policy:   func(p policy.Policy, err error) any { return wholePolicy(p, err) },
	})
}

// severalOptions combines several options into one; err says what is wrong with them.
func severalOptions(opts []Option, err error) Option {
	return func(d *definition) {
		d.note(errors.Join(err, applied(opts, d)))
	}
}

// Defaults sets the options of all steps of the workflow. A step's own options replace them one by one.
func Defaults(opts ...StepOption) Option {
	_, err := stepPolicy(opts)
	return func(d *definition) {
		d.note(wrap("defaults", err))
		d.defaults = append(d.defaults, opts...)
	}
}

// ForStep sets the options of one step in the definition instead of the body. They are checked before anything runs.
// When a run has succeeded and no body has asked for a step of that name, but for one that is spelt nearly the same,
// the log says so.
func ForStep(name string, opts ...StepOption) Option {
	_, err := stepPolicy(opts)
	return func(d *definition) {
		if d.reached == nil {
			d.reached = &reached{names: map[string]bool{}}
		}
		d.note(wrap("step "+name, errors.Join(checkName(name), err)))
		d.byStep[name] = append(d.byStep[name], opts...)
	}
}

// OnFailure runs fn once when a run is about to end as failed or timed out, before the end is recorded. cause is what
// ended it. The hook is a step: it has attempts, by default one, and a place in the history. It has a minute, unless
// [Timeout], [AttemptTimeout] or [WorkTimeout] say otherwise.
func OnFailure[In any](fn func(ctx context.Context, in In, cause error) error, opts ...StepOption) Option {
	return hook(body.HookFailure, fn, opts)
}

// OnCancel runs fn once when a run is about to end as cancelled, after what its body did about that; see [Detached].
// cause matches ErrCancelled.
func OnCancel[In any](fn func(ctx context.Context, in In, cause error) error, opts ...StepOption) Option {
	return hook(body.HookCancel, fn, opts)
}

// OnExit runs fn once when a run is about to end, after the hook of its outcome. cause is nil where it succeeds.
func OnExit[In any](fn func(ctx context.Context, in In, cause error) error, opts ...StepOption) Option {
	return hook(body.HookExit, fn, opts)
}

// hookLimit bounds a hook whose options bound neither the hook nor its attempts.
const hookLimit = time.Minute

func hook[In any](name string, fn func(context.Context, In, error) error, opts []StepOption) Option {
	o, err := stepPolicy(opts)
	if l := &o.policy.Limits; l.ScheduleToClose == nil && l.StartToClose == nil && l.Deadline == nil {
		o, err = stepPolicy([]StepOption{Timeout(hookLimit)}, opts)
	}
	return func(d *definition) {
		d.note(wrap(name, err))
		if fn == nil {
			d.note(wrap(name, errNoFunction))
		}
		if d.hooks[name] != nil {
			d.note(fmt.Errorf("%s is given twice", name))
		}
		d.hooks[name] = &hookDefinition{
			spec: body.HookSpec(name, o.policy),
			in:   func() any { return *new(In) },
			call: func(ctx context.Context, c Codec, p body.HookPayload) error {
				in, err := decodeInput[In](ctx, c, "the input", p.Input)
				if err != nil {
					return err
				}
				return fn(ctx, in, causeOf(ctx, c, p))
			},
		}
	}
}

// causeOf returns the error of a run that closes.
func causeOf(ctx context.Context, c Codec, p body.HookPayload) error {
	if p.Phase == core.RunSucceeded {
		return nil
	}
	at := place{}
	if a := attemptOf(ctx); a != nil {
		at = a.at(kindFailure)
	}
	failure := decodedFailure(ctx, c, at, p.Failure)
	return &RunError{Phase: client.Phase(p.Phase.String()), Failure: failure, own: ownOf(failure)}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
