package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

// Update implements api.Updates. It asks again until the update is answered.
func (c *Client) Update(ctx context.Context, run string, u api.Update) (api.Answer, error) {
	path, err := runPath(run, "updates")
	if err != nil {
		return api.Answer{}, err
	}
	open := errors.New("the server has not said why")
	for {
		var out api.Answer
		status, err := c.do(ctx, http.MethodPost, path+"?wait="+waitAtMost.String(), u, &out)
		switch {
		case err != nil && ctx.Err() != nil:
			return api.Answer{}, &api.Error{
				Code: api.CodeCancelled, Err: ctx.Err(),
				Message: fmt.Sprintf("update %q of run %s has no answer: %v; %v", u.Name, run, ctx.Err(), open),
			}
		case err != nil:
			return api.Answer{}, err
		case status != http.StatusAccepted:
			return out, nil
		}
		open = errors.New(out.Open)
	}
}
