package outbox

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/naming"
)

// refusal is a message that is not written, because it could never be delivered. For errors.Is it is its kind:
// ErrInvalid or ErrTooLarge.
type refusal struct {
	kind error
	error
}

func (r *refusal) Is(target error) bool { return target == r.kind }
func (r *refusal) Unwrap() error        { return r.error }

func refuse(kind error, format string, args ...any) error {
	return wrap(&refusal{kind, fmt.Errorf(format, args...)})
}

// checkStart refuses a start that no engine would make.
func (o *Outbox) checkStart(r *client.StartRequest) error {
	if r.Workflow == "" {
		return refuse(pawl.ErrInvalid, "start: the workflow's name is empty")
	}
	what := "start " + r.Workflow
	texts := naming.Start{
		WorkflowID: r.ID, Key: r.IdempotencyKey, Queue: r.Queue, QueueKey: r.QueueKey, Actor: r.Actor, Reason: r.Reason,
	}
	return errors.Join(
		checked(what, naming.Send{Name: r.Workflow}.Check()), checked(what, texts.Check()),
		o.checkPayload(what, "input", r.Input), checkCarried(what, r),
	)
}

// checkEvent refuses an event that no engine would take.
func (o *Outbox) checkEvent(run string, e *client.SendRequest) error {
	switch {
	case run == "":
		return refuse(pawl.ErrInvalid, "event %q: the id is empty: give a workflow id or a run id", e.Name)
	case e.Name == "":
		return refuse(pawl.ErrInvalid, "event for %q: the event's name is empty", run)
	}
	what := fmt.Sprintf("event %q for %q", e.Name, run)
	return errors.Join(
		checked(what, naming.Start{WorkflowID: run}.Check()), checked(what, naming.Send{Name: e.Name}.Check()),
		o.checkPayload(what, "payload", e.Payload),
	)
}

// checkCarried refuses labels and headers that no engine would take.
func checkCarried(what string, r *client.StartRequest) error {
	_, labels := core.MakeLabels(r.Labels)
	_, headers := core.MakeHeaders(r.Headers)
	if err := errors.Join(labels, headers); err != nil {
		return refuse(pawl.ErrInvalid, "%s: %w", what, err)
	}
	return nil
}

// checked refuses a message with texts that no engine would take, or JSON would change: it would then name another run.
func checked(what string, err error) error {
	if err == nil {
		return nil
	}
	return refuse(pawl.ErrInvalid, "%s: %w", what, err)
}

func (o *Outbox) checkPayload(what, field string, payload []byte) error {
	if len(payload) <= o.maxPayload {
		return nil
	}
	return refuse(pawl.ErrTooLarge, "%s: the %s has %d bytes, more than the %d that are allowed: store it elsewhere "+
		"and pass a reference, or raise MaxPayload of the outbox and of the engine", what, field, len(payload),
		o.maxPayload)
}
