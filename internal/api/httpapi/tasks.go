package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Tasks = (*Client)(nil)

func (c *Client) Poll(ctx context.Context, r api.PollRequest) ([]api.Task, error) {
	var out struct {
		Tasks []api.Task `json:"tasks"`
	}
	_, err := c.do(ctx, http.MethodPost, join("tasks", "poll"), r, &out)
	return out.Tasks, err
}

func (c *Client) Report(ctx context.Context, reports []api.TaskReport) ([]api.TaskAnswer, error) {
	in := struct {
		Reports []api.TaskReport `json:"reports"`
	}{reports}
	var out struct {
		Answers []api.TaskAnswer `json:"answers"`
	}
	_, err := c.do(ctx, http.MethodPost, join("tasks", "report"), in, &out)
	if err == nil && len(out.Answers) != len(reports) {
		err = &api.Error{Code: api.CodeInternal, Message: c.name + " has not answered every report"}
	}
	return out.Answers, err
}
