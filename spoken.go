package pawl

import (
	"context"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
)

// spoken is a client whose errors begin alike, with the name of this library, whichever part of it they come from.
type spoken struct{ Client }

func (c spoken) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	out, err := c.Client.StartRun(ctx, r)
	return out, api.Spoken(err)
}

func (c spoken) AwaitRun(ctx context.Context, id string) (client.Outcome, error) {
	out, err := c.Client.AwaitRun(ctx, id)
	return out, api.Spoken(err)
}

func (c spoken) SendEvent(ctx context.Context, id string, r client.SendRequest) error {
	return api.Spoken(c.Client.SendEvent(ctx, id, r))
}

func (c spoken) SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error) {
	out, err := c.Client.SendUpdate(ctx, id, r)
	return out, api.Spoken(err)
}

func (c spoken) Operate(ctx context.Context, id string, op Operation) error {
	return api.Spoken(c.Client.Operate(ctx, id, op))
}

func (c spoken) RestartRun(ctx context.Context, id string, r client.RestartRequest) (string, error) {
	out, err := c.Client.RestartRun(ctx, id, r)
	return out, api.Spoken(err)
}

func (c spoken) DescribeRun(ctx context.Context, id string) (client.Description, error) {
	out, err := c.Client.DescribeRun(ctx, id)
	return out, api.Spoken(err)
}

func (c spoken) Explain(ctx context.Context, id string) (*client.Explanation, error) {
	out, err := c.Client.Explain(ctx, id)
	return out, api.Spoken(err)
}

func (c spoken) HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error) {
	out, err := c.Client.HistoryEvents(ctx, id, after)
	return out, api.Spoken(err)
}

func (c spoken) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	out, err := c.Client.ListRuns(ctx, q)
	return out, api.Spoken(err)
}

func (c spoken) ListSchedules(ctx context.Context) ([]client.ScheduleDescription, error) {
	out, err := c.Client.ListSchedules(ctx)
	return out, api.Spoken(err)
}

func (c spoken) Register(workflows ...Definition) error {
	return api.Spoken(c.Client.Register(workflows...))
}
