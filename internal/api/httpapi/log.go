package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.LogReader = (*Client)(nil)

func (c *Client) Log(ctx context.Context, run string, at api.LogPlace) (out api.LogPart, err error) {
	path, err := runPath(run, "steps", at.Step, "attempts", strconv.Itoa(at.Attempt), "log")
	if err != nil {
		return out, err
	}
	_, err = c.do(ctx, http.MethodGet, path+"?from="+strconv.FormatInt(at.From, 10), nil, &out)
	return out, err
}
