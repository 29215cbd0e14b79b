package pawl

import (
	"context"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// Event is the name of an event whose payload is a T. Declare it once, for those who send it and for the bodies that
// wait for it:
//
//	const Paid pawl.Event[Payment] = "paid"
type Event[T any] string

// SendOption refines what [Event.Send] and [Update.Send] send.
type SendOption func(*client.SendRequest)

// SendID names what is sent, so that it can be sent again if the answer was lost: a second event with the same name and
// id changes nothing, and a second update gets the answer of the first one.
func SendID(id string) SendOption { return func(r *client.SendRequest) { r.ID = id } }

// Send sends the event to a run, which is named by its run id or its workflow id; see [Client.SendEvent]. The client's
// codec encodes the payload. A flow reads JSON: for its runs and another codec than [JSON] use Client.SendEvent.
func (e Event[T]) Send(ctx context.Context, c Client, id string, payload T, opts ...SendOption) error {
	r, err := sendRequest(ctx, c, kindEvent, id, string(e), payload, opts)
	if err != nil {
		return err
	}
	return c.SendEvent(ctx, id, r)
}

func sendRequest(ctx context.Context, c Client, what, id, name string, payload any, opts []SendOption) (
	client.SendRequest, error,
) {
	if err := usable(ctx, c); err != nil {
		return client.SendRequest{}, err
	}
	if err := checkName(name); err != nil {
		return client.SendRequest{}, invalid(err, "%s %q", what, name)
	}
	b, err := encode(ctx, c.Codec(), "the payload of "+what+" "+name, placeOf(what, id, "", name), payload)
	r := client.SendRequest{Name: name, Payload: b}
	if err == nil {
		err = invalid(applied(opts, &r), "%s %q", what, name)
	}
	return r, err
}

// Wait waits for the event; one that came before is kept and taken at once. With [Within] the error is
// ErrDeadlineExceeded if none comes in time.
func (e Event[T]) Wait(ctx Context, opts ...WaitOption) (T, error) {
	return e.WaitAsync(ctx, opts...).Get(ctx)
}

// WaitAsync begins to wait for the event and returns.
func (e Event[T]) WaitAsync(ctx Context, opts ...WaitOption) *Future[T] {
	name := string(e)
	o, err := branchOf(ctx).waitOptions(name, opts)
	return begin[T](ctx, name, &core.StepSpec{Kind: core.KindWait, Event: name}, core.Schedule{}, nil, o, err)
}

// SendEvent delivers an event.
func (e *local) SendEvent(ctx context.Context, id string, r client.SendRequest) error {
	_, err := onRun(ctx, e, id, func(run core.RunID) (done, error) {
		payload, err := api.Payload("event send", run.String(), r.Payload)
		if err != nil {
			return done{}, err
		}
		in := core.SignalReceived{Name: r.Name, ID: r.ID, Payload: payload, Actor: r.Actor}
		return done{}, e.engine.Signal(ctx, run, in, false)
	})
	return err
}
