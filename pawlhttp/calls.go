package pawlhttp

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// made returns the client of the server, or one that refuses all calls where nobody has connected it.
func (c *Client) made() pawl.Client {
	if c == nil || c.Client == nil {
		return (*pawl.Engine)(nil)
	}
	return c.Client
}

// Codec returns the client's codec.
func (c *Client) Codec() pawl.Codec { return c.made().Codec() }

// Register notes the documents of flows, which go to the server with their first runs.
func (c *Client) Register(workflows ...pawl.Definition) error { return c.made().Register(workflows...) }

// StartRun makes a run; see [pawl.Client].
func (c *Client) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	return c.made().StartRun(ctx, r)
}

// AwaitRun waits for the end of a run's chain; see [pawl.Client].
func (c *Client) AwaitRun(ctx context.Context, id string) (client.Outcome, error) {
	return c.made().AwaitRun(ctx, id)
}

// SendEvent delivers an event; see [pawl.Client].
func (c *Client) SendEvent(ctx context.Context, id string, r client.SendRequest) error {
	return c.made().SendEvent(ctx, id, r)
}

// SendUpdate sends an update and waits for the answer; see [pawl.Client].
func (c *Client) SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error) {
	return c.made().SendUpdate(ctx, id, r)
}

// Operate applies an operation; see [pawl.Client].
func (c *Client) Operate(ctx context.Context, id string, op pawl.Operation) error {
	return c.made().Operate(ctx, id, op)
}

// RestartRun starts a new run with the input of another one; see [pawl.Client].
func (c *Client) RestartRun(ctx context.Context, id string, r client.RestartRequest) (string, error) {
	return c.made().RestartRun(ctx, id, r)
}

// DescribeRun returns a run as it stands; see [pawl.Client].
func (c *Client) DescribeRun(ctx context.Context, id string) (client.Description, error) {
	return c.made().DescribeRun(ctx, id)
}

// Explain returns a run with everything that explains it; see [pawl.Client].
func (c *Client) Explain(ctx context.Context, id string) (*client.Explanation, error) {
	return c.made().Explain(ctx, id)
}

// HistoryEvents returns what has happened to a run; see [pawl.Client].
func (c *Client) HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error) {
	return c.made().HistoryEvents(ctx, id, after)
}

// ListRuns lists runs, the newest first; see [pawl.Client].
func (c *Client) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	return c.made().ListRuns(ctx, q)
}

// ListSchedules describes all schedules, the newest first.
func (c *Client) ListSchedules(ctx context.Context) ([]client.ScheduleDescription, error) {
	return c.made().ListSchedules(ctx)
}
