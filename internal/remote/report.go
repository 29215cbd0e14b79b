package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

func (q *Queues) Report(ctx context.Context, reports []api.TaskReport) ([]api.TaskAnswer, error) {
	answers := make([]api.TaskAnswer, len(reports))
	var later []func()
	for i := range reports {
		finish := q.report(ctx, &reports[i], &answers[i])
		if finish != nil {
			later = append(later, finish)
		}
	}
	for _, finish := range later { // everything that was delivered becomes durable together
		finish()
	}
	return answers, nil
}

// report takes one report. If the answer has to wait until the report is durable, it returns a function that waits for
// that.
func (q *Queues) report(ctx context.Context, r *api.TaskReport, out *api.TaskAnswer) (finish func()) {
	tok, secret, err := readToken(r.Task)
	if err != nil {
		out.Error = asError(err)
		return nil
	}
	a, err := q.attempt(ctx, tok)
	if err == nil && a.task.Secret != secret {
		err = &api.Error{
			Code: api.CodeStale, Op: "report", ID: tok.Run.String(), Message: "the token is not that of the attempt",
		}
	} else if err != nil {
		if r.Kind == api.TaskComplete && q.taken(ctx, tok, r.Output) {
			return nil // it is the same report: the answer to the first one was lost
		}
		err = q.late(ctx, tok, err)
	}
	if err != nil {
		out.Error = asError(err)
		return nil
	}
	switch r.Kind {
	case api.TaskComplete, api.TaskFail:
		return q.ended(ctx, a, r, out)
	case api.TaskStopped:
		return q.workStopped(ctx, a, r, out)
	case api.TaskStart, api.TaskLook:
		if !q.tellToStop(ctx, a, out) {
			left := leftOf(a.task, q.cfg.Now())
			out.Left = &left
		}
	case api.TaskHeartbeat, api.TaskOutput:
		q.alive(ctx, a, r, out)
	default:
		out.Error = &api.Error{
			Code: api.CodeInvalid, Op: "report", Message: fmt.Sprintf("there is no report %q", r.Kind),
		}
	}
	return nil
}

// attempt finds an attempt. It may be one that the engine has not looked at since it was opened.
func (q *Queues) attempt(ctx context.Context, tok core.Token) (*attempt, error) {
	q.mu.Lock()
	a := q.attempts[tok]
	q.mu.Unlock()
	if a != nil {
		return a, nil
	}
	state, err := q.cfg.Engine.Attempt(ctx, tok)
	if err != nil {
		return nil, err
	}
	q.Keep(state.Task)
	q.mu.Lock()
	a = q.attempts[tok]
	q.mu.Unlock()
	if a == nil {
		return nil, serverStops()
	}
	// It may have ended before Keep made it known. Otherwise nobody would tell the worker.
	if _, err = q.cfg.Engine.Attempt(ctx, tok); err != nil {
		q.forget(a, err)
		return nil, err
	}
	return a, nil
}

// forget drops an attempt if the engine reports that it has ended. The engine revokes attempts before it reports that;
// one that was revoked waits for its worker.
func (q *Queues) forget(a *attempt, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if isOver(api.CodeOf(err)) && !a.revoked {
		q.end(a)
	}
}

// isOver reports whether an error with that code means that an attempt has ended. After every other one the attempt
// goes on, and its worker repeats the report.
func isOver(code api.Code) bool {
	return code == api.CodeStale || code == api.CodeRunClosed || code == api.CodeNotFound
}

// serverStops returns the error of a request that has to wait until the server runs again.
func serverStops() *api.Error {
	return &api.Error{Code: api.CodeClosed, Op: "report", Message: "the server stops", Hint: "repeat it"}
}

// alive takes a sign of life.
func (q *Queues) alive(ctx context.Context, a *attempt, r *api.TaskReport, out *api.TaskAnswer) {
	if q.tellToStop(ctx, a, out) {
		return
	}
	switch {
	case r.Kind == api.TaskOutput:
		a.pulse.Output()
	case len(r.Details) > 0:
		a.pulse.Heartbeat(r.Details)
	default:
		a.pulse.Heartbeat(nil)
	}
	state, err := q.cfg.Engine.Attempt(ctx, a.task.Token)
	switch {
	case q.tellToStop(ctx, a, out): // it has ended just now
	case err != nil:
		q.forget(a, err)
		out.Error = asError(q.late(ctx, a.task.Token, err))
	default:
		left := leftOf(state.Task, state.Now)
		out.Paused, out.Left = state.Paused, &left
	}
}

// tellToStop tells the worker of an attempt that has ended to stop the work. It reports whether it did. A worker that
// has reported anything has the task, unless it was given to another one just before.
func (q *Queues) tellToStop(ctx context.Context, a *attempt, out *api.TaskAnswer) bool {
	q.mu.Lock()
	gone, closed := a.over, q.closed
	if !gone {
		defer q.mu.Unlock()
		return q.confirm(a, out)
	}
	q.mu.Unlock()
	if closed { // the attempt goes on, and so may the next process with the engine
		out.Error = serverStops()
	} else {
		out.Error = asError(q.late(ctx, a.task.Token, nil))
	}
	return true
}

// confirm notes that the worker of an attempt has it, and tells it to stop if the attempt has ended. It reports whether
// it did. It is called with the lock held.
func (q *Queues) confirm(a *attempt, out *api.TaskAnswer) bool {
	a.confirmed = true
	if a.unconfirmed != nil {
		a.unconfirmed.Stop()
	}
	if !a.revoked {
		return false
	}
	if !a.told {
		a.told = true
		a.abandon.Reset(2 * q.cfg.Grace)
	}
	out.Stop = a.why.String()
	return true
}

// ended takes the report that an attempt has ended.
func (q *Queues) ended(ctx context.Context, a *attempt, r *api.TaskReport, out *api.TaskAnswer) (finish func()) {
	tok := a.task.Token
	in := core.TaskEnded{
		Step: tok.Step, Attempt: tok.Attempt, Output: r.Output, Failure: r.Failure, Details: r.Details,
	}
	switch {
	case r.Kind == api.TaskComplete && r.Failure != nil:
		out.Error = &api.Error{Code: api.CodeInvalid, Op: "report", Message: "complete has no failure: report fail"}
		return nil
	case r.Kind == api.TaskFail && in.Failure == nil:
		in.Failure = &policy.Failure{}
	}
	if in.Failure != nil && in.Failure.Kind == 0 {
		in.Failure.Kind = policy.KindError
	}
	q.mu.Lock()
	revoked := a.revoked
	if revoked {
		q.end(a)
		q.stopped(tok, false, false)
	}
	a.ending, a.confirmed = true, true
	if a.unconfirmed != nil {
		a.unconfirmed.Stop()
	}
	q.mu.Unlock()
	if revoked { // its work is gone, but it has ended before
		out.Error = asError(q.late(ctx, tok, nil))
		return nil
	}
	if in.Details == nil {
		in.Details = q.lastDetails(a)
	}
	answered := make(chan error, 1)
	q.cfg.Engine.Deliver(tok.Run, in, func(err error) {
		q.mu.Lock()
		if a.ending = err == nil || isOver(api.CodeOf(err)); a.ending {
			q.end(a)
		} // else the worker reports it again
		q.mu.Unlock()
		answered <- err
	})
	return func() {
		select {
		case err := <-answered:
			if err != nil {
				out.Error = asError(q.late(ctx, tok, err))
			}
		case <-ctx.Done():
			out.Error = asError(&api.Error{Code: api.CodeCancelled, Op: "report", ID: tok.Run.String(), Err: ctx.Err()})
		}
	}
}

// lastDetails returns the details that had yet to be reported when an attempt ended. An end that cannot be saved is
// reported again, and has them again.
func (q *Queues) lastDetails(a *attempt) []byte {
	last := a.pulse.End()
	q.mu.Lock()
	defer q.mu.Unlock()
	if last != nil {
		a.details = last
	}
	return a.details
}

// workStopped takes the report that the work of an attempt which had ended before is gone.
func (q *Queues) workStopped(ctx context.Context, a *attempt, r *api.TaskReport, out *api.TaskAnswer) func() {
	tok := a.task.Token
	q.mu.Lock()
	revoked := a.revoked
	if revoked {
		q.end(a)
		q.stopped(tok, r.Abandoned, r.Killed)
	}
	q.mu.Unlock()
	if revoked {
		return nil
	}
	if _, err := q.cfg.Engine.Attempt(ctx, tok); err != nil {
		out.Error = asError(q.late(ctx, tok, err))
		return nil
	}
	out.Error = &api.Error{
		Code: api.CodeConflict, Op: "report", ID: tok.Run.String(), Message: "the attempt was not told to stop",
		Hint: "report complete or fail",
	}
	return nil
}

// late explains a report that was refused: if the attempt has ended, with what has happened instead. Without an error
// it is known that it has.
func (q *Queues) late(ctx context.Context, tok core.Token, err error) error {
	code := api.CodeOf(err)
	if err != nil && code != api.CodeStale && code != api.CodeRunClosed {
		return err
	}
	stale := &api.Error{
		Code: api.CodeStale, Op: "report", ID: tok.Run.String(), Hint: "stop the work; its result is not needed",
	}
	run, err := q.cfg.Run(ctx, tok.Run.String())
	if err != nil {
		stale.Message = "the attempt has ended"
		return stale
	}
	stale.Message = whatHappened(run, tok, q.cfg.Now())
	return stale
}

// taken reports whether an attempt has succeeded with an output.
func (q *Queues) taken(ctx context.Context, tok core.Token, output json.RawMessage) bool {
	run, err := q.cfg.Run(ctx, tok.Run.String())
	if err != nil || int(tok.Step) >= len(run.Steps) {
		return false
	}
	s := run.Steps[tok.Step]
	for _, a := range s.Attempts {
		if a.Attempt == tok.Attempt && s.Attempt == tok.Attempt && a.Outcome == outcomeSucceeded {
			return sameJSON(s.Output, output)
		}
	}
	return false
}

// outcomeSucceeded is the outcome of an attempt whose step has its output.
const outcomeSucceeded = "succeeded"

// sameJSON reports whether two texts are the same value, where no text is null.
func sameJSON(a, b json.RawMessage) bool {
	values := [2]any{}
	for i, text := range []json.RawMessage{a, b} {
		if len(text) == 0 {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// whatHappened describes how an attempt has ended, and what has happened to its step and its run.
func whatHappened(run *api.Run, tok core.Token, now core.Time) string {
	if int(tok.Step) >= len(run.Steps) {
		return "the run has no such step"
	}
	s := run.Steps[tok.Step]
	text := fmt.Sprintf("attempt %d of step %q has ended", tok.Attempt, s.Step)
	for _, a := range s.Attempts {
		if a.Attempt != tok.Attempt || a.EndedAt == 0 {
			continue
		}
		ago := now.Sub(core.Time(a.EndedAt)).Truncate(time.Millisecond)
		text += fmt.Sprintf(" %s ago: %s", duration.Format(max(ago, 0)), a.Outcome)
		if a.Limit != "" {
			text += ", " + a.Limit
		}
	}
	if s.Attempt > tok.Attempt {
		text += fmt.Sprintf("; attempt %d is there by now", s.Attempt)
	}
	return text + fmt.Sprintf("; the step is %s, the run %s", s.Phase, run.Phase)
}

// asError makes an error one that can be sent.
func asError(err error) *api.Error {
	var own *api.Error
	if !errors.As(err, &own) {
		return &api.Error{Code: api.CodeOf(err), Message: err.Error()}
	}
	out := *own
	out.Message, out.Err = own.Reason(), nil
	return &out
}
