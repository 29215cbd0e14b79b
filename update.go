package pawl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Update is the name of a request to a run: the run's body handles it, and the sender gets its answer. Declare it once,
// for those who send it and for the bodies that handle it:
//
//	const Approve pawl.Update[Decision, Receipt] = "approve"
type Update[In, Out any] string

// Handle waits for one update and handles it. Call it again for the next one, and in a branch of [Go] to do something
// else meanwhile.
//
// validate decides whether the body accepts the update. An error refuses it: the sender gets the error, nothing is
// recorded, and Handle waits for the next one. It may look at what the body knows, must not change anything, and may be
// asked again about an update that it accepted before a crash. Nil accepts all.
//
// handle makes the answer, which may be an error. It may run steps. An update that was accepted is recorded: handle is
// called for it again after a crash, as the rest of the body is, and it is answered once.
//
// A run may handle thousands of updates, and each costs the same. What was recorded is read again when the body is
// called again, after a restart for example, so a run that handles updates for ever goes on as a new one from time to
// time, every ten thousand of them for example: see [ContinueAsNew].
//
// Handle returns nil when an update was answered. It returns an error only if none came: with [Within], one that is
// ErrDeadlineExceeded.
func (u Update[In, Out]) Handle(ctx Context, validate func(In) error, handle func(ctx Context, in In) (Out, error),
	opts ...WaitOption,
) error {
	b, name := branchOf(ctx), string(u)
	o, err := b.waitOptions(name, opts)
	if err == nil && handle == nil {
		err = errNoFunction
	}
	f := begin[In](ctx, name, &core.StepSpec{Kind: core.KindWait, Update: name}, core.Schedule{}, nil, o, err)
	if f.result == nil {
		return f.err
	}
	what, at := fmt.Sprintf("the input of update %q", name), b.at(kindUpdate, name)
	record, err := b.TakeUpdate(f.result, func(payload []byte) *policy.Failure {
		in, err := decode[In](b, b.host.codec, what, at, payload)
		if err == nil && validate != nil {
			err = validated(validate, in)
		}
		if err != nil {
			// Nothing is recorded of a refusal, so one that the codec cannot encode is told without what it says.
			f, _ := sealFailure(b, b.host.codec, b.at(kindFailure, name), failureOf(err))
			return f
		}
		return nil
	})
	if err == nil {
		err = b.stepError(&record)
	}
	if err != nil {
		return err
	}
	out, err := handle(ctx, recorded[In](b, b.host.codec, payloadName{what: what}, at, record.Output))
	var answer []byte
	if err == nil {
		answer, err = b.encode(b.host.codec, fmt.Sprintf("the answer to update %q", name), b.at(kindAnswer, name), out)
	}
	if err != nil {
		return b.AnswerUpdate(f.result, nil, b.encodedFailure(failureOf(err)))
	}
	return b.AnswerUpdate(f.result, answer, nil)
}

// HandleAsync begins to wait for one update in a branch of its own (see [Go]), and returns: so that a [Select] waits
// for it beside other things. The future ends as Handle returns.
func (u Update[In, Out]) HandleAsync(ctx Context, validate func(In) error,
	handle func(ctx Context, in In) (Out, error), opts ...WaitOption,
) *Future[struct{}] {
	return Go(ctx, string(u), func(ctx Context) (struct{}, error) {
		return struct{}{}, u.Handle(ctx, validate, handle, opts...)
	})
}

// validated asks a validator. One that panics refuses.
func validated[In any](validate func(In) error, in In) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = newPanic(v, debug.Stack())
		}
	}()
	return validate(in)
}

// Send sends the update to a run, which is named by its run id or its workflow id, and waits for the answer. It waits
// for as long as the body does not come to [Update.Handle]; ctx bounds that. To ask again after an answer was lost,
// give the update an id with [SendID]: a chain of runs remembers its last 1,000 answers, or 1 MiB of them.
//
// The error is an [*UpdateError] if the body refused the update or answered with an error. Others: ErrNotFound,
// ErrRunClosed (the run has ended, or it ends before it has accepted the update), ErrConflict (the run is paused),
// ErrTooLarge, ErrClosed.
func (u Update[In, Out]) Send(ctx context.Context, c Client, id string, in In, opts ...SendOption) (Out, error) {
	var zero Out
	r, err := sendRequest(ctx, c, kindUpdate, id, string(u), in, opts)
	if err != nil {
		return zero, err
	}
	a, err := c.SendUpdate(ctx, id, r)
	if err != nil {
		return zero, err
	}
	at := placeOf(kindAnswer, a.Run, "", r.Name)
	if a.Failure != nil {
		failure := decodedFailure(ctx, c.Codec(), at, a.Failure)
		return zero, &UpdateError{
			Run: a.Run, Update: r.Name, Refused: a.Refused, Failure: failure, own: decodeFailure(failure),
		}
	}
	return decode[Out](ctx, c.Codec(), fmt.Sprintf("the answer to update %q", r.Name), at, a.Output)
}

// UpdateError is the error of an update that a run refused or answered with an error. errors.As finds the body's own
// error, of the type it had where that was registered.
type UpdateError struct {
	Run, Update string
	Refused     bool // the body did not accept it; nothing is recorded of it
	Failure     *policy.Failure
	own         error
}

func (e *UpdateError) Error() string {
	did := "failed"
	if e.Refused {
		did = "was refused"
	}
	return fmt.Sprintf("update %q of run %s %s: %v", e.Update, e.Run, did, e.own)
}

// Unwrap returns the body's own error.
func (e *UpdateError) Unwrap() error { return e.own }

// SendUpdate sends an update and waits for the answer.
func (e *local) SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error) {
	if err := checkSend("update", &r); err != nil {
		return client.Answer{}, err
	}
	if err := errors.Join(checkName(r.Name), e.host.tooLarge("the payload of update "+r.Name, r.Payload)); err != nil {
		return client.Answer{}, invalid(err, "update %q", r.Name)
	}
	if r.ID == "" {
		r.ID = rand.Text()
	}
	return onRun(ctx, e, id, func(run core.RunID) (client.Answer, error) {
		reply, err := body.Asking{
			State:   e.engine.UpdateState,
			Ask:     func(run core.RunID, u body.Update) body.Pending { return e.host.bodies.Ask(run, u) },
			HasBody: func(name string, id core.DefinitionID) bool { return id == definitionID(name) },
		}.Update(ctx, run, body.Update{Name: r.Name, ID: r.ID, Payload: r.Payload})
		switch {
		case err != nil:
			return client.Answer{}, err
		case reply.Open:
			return client.Answer{}, e.unanswered(ctx, reply.Run, r, reply.Accepted)
		default:
			return client.Answer{
				Run: reply.Run.String(), Output: reply.Output, Failure: reply.Failure, Refused: reply.Refused,
			}, nil
		}
	})
}

// unanswered returns the error of a caller that stops waiting.
func (e *local) unanswered(ctx context.Context, run core.RunID, r client.SendRequest, accepted bool) error {
	what := fmt.Sprintf("the body has not accepted it, and waits perhaps for something else than update %q", r.Name)
	if accepted {
		what = fmt.Sprintf("it is accepted and not answered yet: ask again with the id %q", r.ID)
	}
	err := fmt.Errorf("pawl: update %q of run %s: %w; %s", r.Name, run, context.Cause(ctx), what)
	if problem := e.host.bodies.Problem(run); problem != nil {
		err = fmt.Errorf("%w; the run cannot go on: %w", err, problem)
	}
	return err
}
