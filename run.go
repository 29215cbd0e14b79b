package pawl

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/policy"
)

// Run is a run that was started or found. Its result has the workflow's type.
type Run[Out any] struct {
	ID       string
	Existing bool // it was there before
	client   Client
	codec    Codec  // of its values
	workflow string // empty: not known
}

// StartOption refines a start.
type StartOption func(*client.StartRequest)

// IdempotencyKey makes a repeated start with the same key and the same input return the run that the first one made, or
// the one that has followed it in its chain, also when that has ended. With another input it is [ErrConflict]. The key
// belongs to the workflow: another one may use the same. It is known for as long as that run is kept; see
// [Config.Retention].
func IdempotencyKey(key string) StartOption { return func(r *client.StartRequest) { r.Key = key } }

// UseExisting makes a start return the open run of the same workflow that has its workflow id. Without it, or if the
// run is of another workflow, the start fails with [ErrConflict].
func UseExisting() StartOption { return func(r *client.StartRequest) { r.UseExisting = true } }

// StartAt delays the start.
func StartAt(t time.Time) StartOption { return func(r *client.StartRequest) { r.At = t } }

// StartAfter delays the start.
func StartAfter(d time.Duration) StartOption {
	return func(r *client.StartRequest) { r.At = time.Now().Add(d) }
}

// RunDeadline bounds the chain of runs by an instant.
func RunDeadline(t time.Time) StartOption { return func(r *client.StartRequest) { r.Deadline = t } }

// By says who starts the run and why; it is kept with the run.
func By(actor, reason string) StartOption {
	return func(r *client.StartRequest) { r.Actor, r.Reason = actor, reason }
}

// Start makes a run. It returns when the start is durable. The id, chosen by the caller, is unique among open runs;
// empty: the run's own. Errors: those of [Client.StartRun], and what is wrong with the definition.
func (w *Workflow[In, Out]) Start(ctx context.Context, c Client, id string, in In,
	opts ...StartOption,
) (Run[Out], error) {
	if w.def.err != nil {
		return Run[Out]{}, w.def.err
	}
	if r, ok := c.(interface{ Register(...Definition) error }); ok {
		if err := r.Register(w); err != nil {
			return Run[Out]{}, err
		}
	}
	input, err := encode(ctx, w.def.codec(c.Codec()), "the input of workflow "+w.def.name,
		place{kind: kindInput, workflow: w.def.name}, in)
	if err != nil {
		return Run[Out]{}, err
	}
	req := client.StartRequest{Workflow: w.def.name, ID: id, Input: input}
	for _, opt := range opts {
		opt(&req)
	}
	started, err := c.StartRun(ctx, req)
	if err != nil {
		return Run[Out]{}, err
	}
	return Run[Out]{
		ID: started.ID, Existing: started.Existing, client: c, codec: w.def.codec(c.Codec()), workflow: w.def.name,
	}, nil
}

// Find returns a run of the workflow by its run id or its workflow id.
func (w *Workflow[In, Out]) Find(ctx context.Context, c Client, id string) (Run[Out], error) {
	d, err := c.DescribeRun(ctx, id)
	if err != nil {
		return Run[Out]{}, err
	}
	if d.Workflow != w.def.name {
		return Run[Out]{}, fmt.Errorf("pawl: run %s is of workflow %q, not of %q", d.ID, d.Workflow, w.def.name)
	}
	return Run[Out]{
		ID: d.ID, Existing: true, client: c, codec: w.def.codec(c.Codec()), workflow: w.def.name,
	}, nil
}

// Result waits for the run's end, or the end of its chain, and returns what the body returned. If the run ended without
// a result, the error is a *RunError; errors.As also finds the body's own error.
func (r Run[Out]) Result(ctx context.Context) (Out, error) {
	var zero Out
	out, err := r.client.AwaitRun(ctx, r.ID)
	if err != nil {
		return zero, err
	}
	at := placeOf(kindOutput, out.ID, r.workflow, "")
	if out.Phase != client.PhaseSucceeded {
		failure := opened(ctx, r.codec, at, out.Failure)
		return zero, &RunError{Run: out.ID, Phase: out.Phase, Failure: failure, own: ownOf(failure)}
	}
	return decode[Out](ctx, r.codec, "the result", at, out.Output)
}

// ownOf is the body's own error; after a timeout or a cancel it is that of its compensation, if that failed.
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

// Cancel asks the run to stop: nothing new begins, waits end at once, running steps finish and their results are kept.
func (r Run[Out]) Cancel(ctx context.Context, reason string) error {
	return r.client.Operate(ctx, r.ID, Operation{Op: client.OpCancel, Reason: reason})
}

// RunOf names a run by its run id or workflow id, for a client that did not start it. Whether it exists is not looked
// up. A run of a flow under another codec than [JSON] is found by its workflow's Find instead.
func RunOf[Out any](c Client, id string) Run[Out] {
	return Run[Out]{ID: id, Existing: true, client: c, codec: c.Codec()}
}
