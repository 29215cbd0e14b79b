package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

var _ API = (*Engine)(nil)

var null = []byte("null")

// Start makes a run. It returns when the start is durable.
// Errors: CodeInvalid, CodeTooLarge, CodeConflict, CodeStalled, CodeUncertain, CodeClosed.
func (e *Engine) Start(ctx context.Context, r StartRequest) (Started, error) {
	if len(r.Input) == 0 {
		r.Input = null
	}
	if err := e.payload("start", r.Definition.Name, r.Input); err != nil {
		return Started{}, err
	}
	w, err := e.defs.use(ctx, &r.Definition)
	if err != nil {
		return Started{}, invalid("start", r.Definition.Name, "the definition cannot be used: %w", err)
	}
	if e, err = e.home(&r); err != nil {
		return Started{}, err
	}
	if err := e.pass(ctx, "start"); err != nil {
		return Started{}, err
	}
	defer e.leave()
	c := e.call(CallStart)
	c.Start, c.workflow = r, w
	if err := e.do(ctx, c); err != nil {
		return Started{}, err
	}
	started, err := c.Started, c.Err
	e.free(c)
	return started, err
}

// payload checks what a caller wants stored.
func (e *Engine) payload(op, id string, b []byte) error {
	if len(b) > e.cfg.MaxPayload {
		return &Error{
			Code: CodeTooLarge, Op: op, ID: id, Err: errors.New(tooLarge(len(b), e.cfg.MaxPayload)),
			Hint: "store it elsewhere and pass a reference, or raise the limit",
		}
	}
	if len(b) > 0 && !json.Valid(b) {
		return invalid(op, id, "the payload is not valid JSON")
	}
	return nil
}

// Operate applies an operation. It returns when the operation is durable. One on a run as a whole that others have followed in its
// chain is for the last one, unless it retries the run.
// Errors: CodeNotFound, CodeConflict, CodeRunClosed, CodeInvalid, and those of Start.
func (e *Engine) Operate(ctx context.Context, id core.RunID, op core.Operation) error {
	if err := e.payload(op.Op.String(), id.String(), op.Output); err != nil {
		return err
	}
	return e.input(ctx, id, op)
}

// Signal delivers an event. It returns when the event is durable. Where other runs have followed the run in its chain, it
// is for the last one. Errors: those of Operate, CodeFull.
func (e *Engine) Signal(ctx context.Context, id core.RunID, s core.SignalReceived) error {
	if len(s.Payload) == 0 {
		s.Payload = null
	}
	if err := e.payload("event send", id.String(), s.Payload); err != nil {
		return err
	}
	return e.input(ctx, id, s)
}

func (e *Engine) input(ctx context.Context, id core.RunID, in core.Input) error {
	c := e.call(CallInput)
	c.Run, c.Input = id, in
	if id == (core.RunID{}) {
		return unnamed(c.op())
	}
	e = e.of(id)
	if err := e.pass(ctx, c.op()); err != nil {
		return err
	}
	defer e.leave()
	if err := e.do(ctx, c); err != nil {
		return err
	}
	err := c.Err
	e.free(c)
	return err
}

// Result waits until the run has ended. Where a chain goes on it waits for the chain's end.
// Errors: CodeInvalid, CodeNotFound, CodeClosed, CodeCancelled.
func (e *Engine) Result(ctx context.Context, id core.RunID) (Outcome, error) {
	if id == (core.RunID{}) {
		return Outcome{}, unnamed("result")
	}
	e = e.of(id)
	for {
		out, next, err := e.result(ctx, id)
		if err != nil || next == (core.RunID{}) {
			return out, err
		}
		id = next // the chain goes on, or ask again
	}
}

// result waits for the outcome of one run, or returns the run to go on with.
func (e *Engine) result(ctx context.Context, id core.RunID) (Outcome, core.RunID, error) {
	w := NewWaiter()
	c := e.call(CallResult)
	c.Run, c.Waiter = id, w
	if err := e.send(ctx, c); err != nil {
		return Outcome{}, core.RunID{}, err
	}
	for {
		select {
		case r := <-w.ch:
			select {
			case <-c.ch: // it was answered that the run is not in memory; enrolled silently it never is
			default:
			}
			e.free(c)
			if r.again {
				return Outcome{}, id, nil
			}
			return r.outcome, core.RunID{}, r.err
		case <-c.ch:
			if c.lost() {
				e.free(c)
				return Outcome{}, id, nil
			}
			if c.Err != nil || !c.Absent {
				out, err := c.Outcome, c.Err
				e.free(c)
				return out, core.RunID{}, err
			}
			out, next, ended, err := e.ended(ctx, c.Run)
			if err != nil || ended {
				e.unwait(w)
				return out, next, err
			}
			c.Absent = false
		case <-ctx.Done():
			e.unwait(w)
			return Outcome{}, core.RunID{}, e.gaveUp(ctx, c)
		}
	}
}

// ended reads from the view whether a run that is not in memory has ended, and how.
func (e *Engine) ended(ctx context.Context, id core.RunID) (Outcome, core.RunID, bool, error) {
	h, err := e.cfg.Journal.History(ctx, id)
	if errors.Is(err, journal.ErrNotFound) { // it may be pruned, and have lent its id to the chain that goes on
		if heir, lookErr := e.Lookup(ctx, id.String()); lookErr == nil && heir != id {
			return Outcome{}, heir, true, nil
		}
	}
	if err != nil {
		return Outcome{}, core.RunID{}, false, e.readError("result", id.String(), err)
	}
	r, err := e.fold(ctx, id, h.Entries)
	if err != nil || !r.Phase.Closed() {
		return Outcome{}, core.RunID{}, false, err
	}
	return outcomeOf(r), r.Next, true, nil
}

// unwait takes a waiter out; nobody waits for that.
func (e *Engine) unwait(w *Waiter) {
	e.inbox.put(item{call: &Call{Op: CallLeave, Waiter: w}})
}
