package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// Run is a run that was started or found. Its result has the workflow's type.
type Run[Out any] struct {
	ID       string
	Existing bool // it was there before
	client   Client
	codec    Codec  // the codec of its values
	workflow string // empty: not known
}

// StartOption refines a start.
type StartOption func(*client.StartRequest)

// IdempotencyKey lets a start be repeated: one with the same key and the same input makes no run, but returns the run
// of the first start, or the last one of its chain. It does so also when that run has ended, and whatever workflow id
// the repeated start has. With another input it is [ErrConflict]. The key belongs to the workflow: another one may use
// the same. It is known for as long as that run is kept; see [Config.Retention].
func IdempotencyKey(key string) StartOption {
	return func(r *client.StartRequest) { r.IdempotencyKey = key }
}

// UseExisting makes a start return the open run of the same workflow that has its workflow id. Without it, or if the
// run is of another workflow, the start fails with [ErrConflict].
func UseExisting() StartOption { return func(r *client.StartRequest) { r.UseExisting = true } }

// StartAt delays the start.
func StartAt(t time.Time) StartOption { return func(r *client.StartRequest) { r.At = t } }

// RunDeadline bounds a run with its retries and continuations by an instant, as [ExecutionTimeout] does by a length.
func RunDeadline(t time.Time) StartOption { return func(r *client.StartRequest) { r.Deadline = t } }

// By says who starts the run and why; it is kept with the run.
func By(actor, reason string) StartOption {
	return func(r *client.StartRequest) { r.Actor, r.Reason = actor, reason }
}

// InQueue starts the run into a queue; see [RunQueue]. The key is what limits for each key of the queue count by, such
// as a tenant. An empty name is the queue of the workflow.
func InQueue(name, key string, priority int32) StartOption {
	return func(r *client.StartRequest) { r.Queue, r.QueueKey, r.Priority = name, key, priority }
}

// Labels gives the run labels: keys with values that it can be searched by, with [client.Query].Labels. Several of
// these options add up. The runs that follow it in its chain have them too; its children do not. A run has at most 50
// labels, with keys of up to 100 and values of up to 500 bytes.
func Labels(labels map[string]string) StartOption {
	return func(r *client.StartRequest) {
		all := maps.Clone(r.Labels)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, labels)
		r.Labels = all
	}
}

// Start makes a run. It returns when the start is durable. The id, chosen by the caller, is unique among open runs;
// empty: the run's own. Errors: those of [Client.StartRun], and what is wrong with the definition.
func (w *Workflow[In, Out]) Start(ctx context.Context, c Client, id string, in In,
	opts ...StartOption,
) (Run[Out], error) {
	if err := usable(ctx, c); err != nil {
		return Run[Out]{}, err
	}
	if w.definition().err != nil {
		return Run[Out]{}, w.definition().err
	}
	if err := c.Register(w); err != nil {
		return Run[Out]{}, err
	}
	input, err := encode(ctx, w.definition().codec(c.Codec()), "the input of workflow "+w.definition().name,
		place{kind: kindInput, workflow: w.definition().name}, in)
	if err != nil {
		return Run[Out]{}, err
	}
	req := client.StartRequest{Workflow: w.definition().name, ID: id, Input: input}
	if err := applied(opts, &req); err != nil {
		return Run[Out]{}, invalid(err, "start")
	}
	started, err := c.StartRun(ctx, req)
	if err != nil {
		return Run[Out]{}, err
	}
	return Run[Out]{
		ID: started.ID, Existing: started.Existing, client: c, codec: w.definition().codec(c.Codec()),
		workflow: w.Name(),
	}, nil
}

// Find returns a run of the workflow by its run id or its workflow id.
func (w *Workflow[In, Out]) Find(ctx context.Context, c Client, id string) (Run[Out], error) {
	if err := usable(ctx, c); err != nil {
		return Run[Out]{}, err
	}
	if err := missingDefinition(w); err != nil {
		return Run[Out]{}, err
	}
	d, err := c.DescribeRun(ctx, id)
	if err != nil {
		return Run[Out]{}, err
	}
	if d.Workflow != w.definition().name {
		return Run[Out]{}, fmt.Errorf("pawl: run %s is of workflow %q, not of %q", d.ID, d.Workflow, w.Name())
	}
	return Run[Out]{
		ID: d.ID, Existing: true, client: c, codec: w.definition().codec(c.Codec()), workflow: w.definition().name,
	}, nil
}

// Result waits for the run's end, or the end of its chain, and returns what the body returned. If the run ended without
// a result, the error is a *RunError; errors.As also finds the body's own error.
func (r Run[Out]) Result(ctx context.Context) (Out, error) {
	var zero Out
	if r.client == nil {
		return zero, errNoClient
	}
	out, err := r.client.AwaitRun(ctx, r.ID)
	if err != nil {
		return zero, err
	}
	at := placeOf(kindOutput, out.ID, r.workflow, "")
	if out.Phase != client.PhaseSucceeded {
		failure := decodedFailure(ctx, r.codec, at, out.Failure)
		return zero, &RunError{Run: out.ID, Phase: out.Phase, Failure: failure, own: ownOf(failure)}
	}
	return decode[Out](ctx, r.codec, "the result", at, out.Output)
}

// ownOf returns the body's own error; after a timeout or a cancel it is that of its compensation, if that failed.
func ownOf(f *policy.Failure) error {
	switch {
	case f == nil, f.Kind == policy.KindTimeout && f.Cause == nil:
		return nil
	case f.Kind == policy.KindTimeout:
		return decodeFailure(f.Cause)
	case f.Kind == policy.KindCancelled && f.Cause != nil:
		return &recordedError{f.Message, decodeFailure(f.Cause), []error{ErrCancelled}}
	case f.Kind == policy.KindCancelled:
		return nil
	default:
		return decodeFailure(f)
	}
}

// Describe returns the run as it stands. A run that others of its chain have followed is described itself.
func (r Run[Out]) Describe(ctx context.Context) (client.Description, error) {
	if r.client == nil {
		return client.Description{}, errNoClient
	}
	return r.client.DescribeRun(ctx, r.ID)
}

// Cancel asks the run to stop: nothing new begins, waits end at once, running steps are told to stop. With
// [client.OpCancelGracefully] running steps would finish, and their results would be kept; see [Client.Operate].
func (r Run[Out]) Cancel(ctx context.Context, reason string) error {
	return r.operate(ctx, client.OpCancel, reason)
}

// Terminate closes the run at once: nothing of it undoes what it has done.
func (r Run[Out]) Terminate(ctx context.Context, reason string) error {
	return r.operate(ctx, client.OpTerminate, reason)
}

// Pause lets the run begin nothing more until [Run.Resume]. Attempts that run may end. Its deadlines go on; with
// [Client.Operate] they can stand still.
func (r Run[Out]) Pause(ctx context.Context, reason string) error {
	return r.operate(ctx, client.OpPause, reason)
}

// Resume lets a paused run go on.
func (r Run[Out]) Resume(ctx context.Context, reason string) error {
	return r.operate(ctx, client.OpResume, reason)
}

// Retry lets a run that has ended go back to the failed steps that its failure came from. What has succeeded is not
// done again. Errors: those of [Client.Operate], ErrConflict if the run cannot be retried.
func (r Run[Out]) Retry(ctx context.Context, reason string) error {
	return r.operate(ctx, client.OpRetryRun, reason)
}

func (r Run[Out]) operate(ctx context.Context, op client.Op, reason string) error {
	if r.client == nil {
		return errNoClient
	}
	return r.client.Operate(ctx, r.ID, Operation{Op: op, Reason: reason})
}

// RunOf names a run by its run id or workflow id, for a client that did not start it. Whether it exists is not looked
// up. A run of a flow under another codec than [JSON] is found by its workflow's Find instead.
func RunOf[Out any](c Client, id string) Run[Out] {
	r := Run[Out]{ID: id, Existing: true, client: c}
	if usable(context.Background(), c) != nil {
		r.client = nil
		return r
	}
	r.codec = c.Codec()
	return r
}

// errNoClient is the error of a run that was neither started nor found.
var errNoClient error = &invalidError{errors.New("pawl: the run has no client: start one, or name one with RunOf")}

// RestartRun starts a new run with the input of another one, with fresh deadlines, and returns its id.
func (e *local) RestartRun(ctx context.Context, id string, again client.RestartRequest) (string, error) {
	r, err := e.inspect(ctx, id)
	if err != nil {
		return "", err
	}
	req := client.StartRequest{
		Workflow: r.Workflow, ID: r.WorkflowID, Input: r.Input, Labels: r.Labels.Map(), Headers: r.Headers.Map(),
		Actor: again.Actor, Reason: again.Reason,
	}
	if err := schedule.Reserved(req.Workflow, req.ID, nil, false); err != nil {
		return "", invalid(err, "restart")
	}
	if r.Admission != nil {
		q := r.Admission.Queue
		req.Queue, req.QueueKey, req.Priority = q.Name, q.Key, q.Priority
	}
	var keep []core.Kept
	if len(again.Steps) > 0 || again.From != "" || again.Failed {
		if keep, err = e.keptSteps(r, &again); err != nil {
			return "", err
		}
	}
	like := asked(&req)
	like.ScheduledAt, like.Zone = api.Time(r.Firing), r.Zone
	started, err := e.startRun(ctx, req.Workflow, like, keep)
	return started.ID, err
}

// keptSteps returns the results that a rerun keeps.
func (e *local) keptSteps(r *core.Run, again *client.RestartRequest) ([]core.Kept, error) {
	steps, from := again.Steps, again.From != "" || again.Failed
	if !r.Phase.Closed() {
		return nil, fmt.Errorf("pawl: rerun: run %s is %s: cancel it, or wait until it has ended: %w",
			r.ID, r.Phase, ErrConflict)
	}
	switch {
	case again.Failed && (len(steps) > 0 || again.From != ""):
		return nil, invalid(errors.New("name the steps, or say that the failed ones run again"), "rerun")
	case len(steps) > 0 && from:
		return nil, invalid(errors.New("name the steps, or the one from which on"), "rerun")
	case again.Failed:
		if err := core.RefusesFailed(r); err != nil {
			return nil, fmt.Errorf("pawl: rerun: %w: %w", err, ErrConflict)
		}
	case from:
		steps = []string{again.From}
	}
	d, err := e.host.startable(r.Workflow)
	if err != nil {
		return nil, err
	}
	if d.document == nil {
		return body.Rerun(r, steps, from)
	}
	keep, err := d.document.Rerun(r, steps, from)
	if err != nil {
		return nil, fmt.Errorf("pawl: rerun: run %s: %w: %w", r.ID, err, ErrNotFound)
	}
	return keep, nil
}

func noStep(op string, run core.RunID, name string) error {
	return fmt.Errorf("pawl: %s: run %s has no step %q: %w", op, run, name, ErrNotFound)
}

// inspect returns the run of a name, the newest one of its chain, as it stands.
func (e *local) inspect(ctx context.Context, id string) (*core.Run, error) {
	return service.Newest(id, func() (*core.Run, error) {
		return onRun(ctx, e, id, func(run core.RunID) (*core.Run, error) { return e.engine.Inspect(ctx, run) })
	}, func(r *core.Run) (id, next string) {
		if r.Next != (core.RunID{}) {
			next = r.Next.String()
		}
		return r.ID.String(), next
	})
}

// Headers gives the run headers: what goes along with it and is not its input, such as a tenant. Steps, handlers and
// hooks find them in [Attempt], bodies in [Info]. Children and the runs that follow in the chain have the same ones;
// they never change. Several of these options add up. They replace what a [Propagator] says about the same key; an
// empty value removes it. All keys and values together may have 4 KiB, a key 100 bytes.
func Headers(headers map[string]string) StartOption {
	return func(r *client.StartRequest) {
		all := maps.Clone(r.Headers)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, headers)
		r.Headers = all
	}
}

// Propagator takes what a context holds, such as a trace or the tenant of an HTTP request, along with the runs that are
// started with it. The contexts of their bodies, steps, handlers and hooks hold it again, in whichever process and
// after whichever restart. See [Config.Propagators].
type Propagator interface {
	// ToHeaders returns what goes along with a run that is started with this context; nil: nothing. If it panics, the
	// start fails with ErrInvalid, and no run is made.
	ToHeaders(ctx context.Context) map[string]string
	// FromHeaders returns a context that holds what the headers of a run say. It is called for each attempt and each
	// call of a body, so it must not do I/O, and what it returns must depend on its arguments only.
	FromHeaders(ctx context.Context, headers map[string]string) context.Context
}

// forwarded returns the headers of a task that leaves the program: what the context holds, which may be the trace of
// this very attempt, replaces what the run was started with.
func (h *host) forwarded(ctx context.Context, t *core.Task) core.Headers {
	if len(h.propagators) == 0 {
		return t.Headers
	}
	all := t.Headers.Map()
	if all == nil {
		all = map[string]string{}
	}
	h.guarded(t.Token.Run, func() {
		for _, p := range h.propagators {
			maps.Copy(all, p.ToHeaders(ctx))
		}
	})
	headers, err := core.MakeHeaders(all)
	if err != nil {
		h.log.Warn("the headers of a step's context cannot be sent along, those of its run are", "run",
			t.Token.Run.String(), "step", t.StepName, "error", err)
		return t.Headers
	}
	return headers
}

// carried returns a context with what the headers of a run say.
func (h *host) carried(ctx context.Context, run core.RunID, headers core.Headers) context.Context {
	if headers == "" {
		return ctx
	}
	all := headers.Map()
	for _, p := range h.propagators {
		h.guarded(run, func() {
			if next := p.FromHeaders(ctx, maps.Clone(all)); next != nil {
				ctx = next
			}
		})
	}
	return ctx
}

// guarded calls a propagator. A panic of it is logged, and the run goes on without what it would have said.
func (h *host) guarded(run core.RunID, call func()) {
	defer func() {
		if v := recover(); v != nil {
			h.log.Error("a propagator of Config.Propagators panicked",
				"id", "propagator-panic", "run", run.String(), "panic", v, "stack",
				string(debug.Stack()))
		}
	}()
	call()
}
