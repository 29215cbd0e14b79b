package pawl

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
)

// The errors of calls with something that is nil.
var (
	errNilContext = nothing("the context is nil: use context.Background if there is none")
	errNilClient  = nothing("the client is nil, or nobody has made it: use the engine of pawl.Open, or the client of " +
		"pawlhttp.Connect")
)

// nothing returns the error of a call with something that is nil.
func nothing(text string) error { return &invalidError{errors.New("pawl: " + text)} }

// usable returns an error for a context or a client with which nothing can be done.
func usable(ctx context.Context, c Client) error {
	if ctx == nil {
		return errNilContext
	}
	switch c := c.(type) {
	case nil:
		return errNilClient
	case *Engine:
		if c == nil || c.Client == nil {
			return errNilClient
		}
		return nil
	default:
		if v := reflect.ValueOf(c); v.Kind() == reflect.Pointer && v.IsNil() {
			return errNilClient
		}
		return nil
	}
}

// applied applies options to what they refine. It refuses one that is nil.
func applied[O ~func(T), T any](opts []O, to T) error {
	for i, opt := range opts {
		if opt == nil {
			return fmt.Errorf("option %d is nil", i+1)
		}
		opt(to)
	}
	return nil
}

// spoken is a client whose errors begin alike, with the name of this library, whichever part of it they come from. It
// refuses contexts that are nil, and all calls where there is no client.
type spoken struct{ Client }

// ask makes a call of a client.
func ask[T any](ctx context.Context, c Client, call func() (T, error)) (T, error) {
	if err := usable(ctx, c); err != nil {
		var zero T
		return zero, err
	}
	out, err := call()
	return out, api.Spoken(err)
}

// tell makes a call of a client that has no result but its error.
func tell(ctx context.Context, c Client, call func() error) error {
	_, err := ask(ctx, c, func() (done, error) { return done{}, call() })
	return err
}

func (c spoken) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	return ask(ctx, c.Client, func() (client.Started, error) { return c.Client.StartRun(ctx, r) })
}

func (c spoken) AwaitRun(ctx context.Context, id string) (client.Outcome, error) {
	return ask(ctx, c.Client, func() (client.Outcome, error) { return c.Client.AwaitRun(ctx, id) })
}

func (c spoken) SendEvent(ctx context.Context, id string, r client.SendRequest) error {
	return tell(ctx, c.Client, func() error { return c.Client.SendEvent(ctx, id, r) })
}

func (c spoken) SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error) {
	return ask(ctx, c.Client, func() (client.Answer, error) { return c.Client.SendUpdate(ctx, id, r) })
}

func (c spoken) Operate(ctx context.Context, id string, op Operation) error {
	return tell(ctx, c.Client, func() error { return c.Client.Operate(ctx, id, op) })
}

func (c spoken) RestartRun(ctx context.Context, id string, r client.RestartRequest) (string, error) {
	return ask(ctx, c.Client, func() (string, error) { return c.Client.RestartRun(ctx, id, r) })
}

func (c spoken) DescribeRun(ctx context.Context, id string) (client.Description, error) {
	return ask(ctx, c.Client, func() (client.Description, error) { return c.Client.DescribeRun(ctx, id) })
}

func (c spoken) Explain(ctx context.Context, id string) (*client.Explanation, error) {
	return ask(ctx, c.Client, func() (*client.Explanation, error) { return c.Client.Explain(ctx, id) })
}

func (c spoken) HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error) {
	return ask(ctx, c.Client, func() ([]client.HistoryEvent, error) { return c.Client.HistoryEvents(ctx, id, after) })
}

func (c spoken) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	return ask(ctx, c.Client, func() ([]client.Summary, error) { return c.Client.ListRuns(ctx, q) })
}

func (c spoken) ListSchedules(ctx context.Context) ([]client.ScheduleDescription, error) {
	return ask(ctx, c.Client, func() ([]client.ScheduleDescription, error) { return c.Client.ListSchedules(ctx) })
}

func (c spoken) Register(workflows ...Definition) error {
	if c.Client == nil {
		return errNilClient
	}
	return api.Spoken(c.Client.Register(workflows...))
}

func (c spoken) Codec() Codec {
	if c.Client == nil {
		return JSON{}
	}
	return c.Client.Codec()
}

// made returns the engine's client, or one that refuses all calls where nobody has opened the engine.
func (e *Engine) made() Client {
	if e == nil || e.Client == nil {
		return spoken{}
	}
	return e.Client
}

// Codec returns the engine's codec.
func (e *Engine) Codec() Codec { return e.made().Codec() }

// StartRun makes a run; see [Client].
func (e *Engine) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	return e.made().StartRun(ctx, r)
}

// AwaitRun waits for the end of a run's chain; see [Client].
func (e *Engine) AwaitRun(ctx context.Context, id string) (client.Outcome, error) {
	return e.made().AwaitRun(ctx, id)
}

// SendEvent delivers an event; see [Client].
func (e *Engine) SendEvent(ctx context.Context, id string, r client.SendRequest) error {
	return e.made().SendEvent(ctx, id, r)
}

// SendUpdate sends an update and waits for the answer; see [Client].
func (e *Engine) SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error) {
	return e.made().SendUpdate(ctx, id, r)
}

// Operate applies an operation; see [Client].
func (e *Engine) Operate(ctx context.Context, id string, op Operation) error {
	return e.made().Operate(ctx, id, op)
}

// RestartRun starts a new run with the input of another one; see [Client].
func (e *Engine) RestartRun(ctx context.Context, id string, r client.RestartRequest) (string, error) {
	return e.made().RestartRun(ctx, id, r)
}

// DescribeRun returns a run as it stands; see [Client].
func (e *Engine) DescribeRun(ctx context.Context, id string) (client.Description, error) {
	return e.made().DescribeRun(ctx, id)
}

// Explain returns a run with everything that explains it; see [Client].
func (e *Engine) Explain(ctx context.Context, id string) (*client.Explanation, error) {
	return e.made().Explain(ctx, id)
}

// HistoryEvents returns what has happened to a run; see [Client].
func (e *Engine) HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error) {
	return e.made().HistoryEvents(ctx, id, after)
}

// ListRuns lists runs, the newest first; see [Client].
func (e *Engine) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	return e.made().ListRuns(ctx, q)
}

// ListSchedules describes all schedules, the newest first.
func (e *Engine) ListSchedules(ctx context.Context) ([]client.ScheduleDescription, error) {
	return e.made().ListSchedules(ctx)
}
