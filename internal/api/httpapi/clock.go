package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Clock = (*Client)(nil)

// Clock implements api.Clock.
func (c *Client) Clock(ctx context.Context) (out api.ClockState, err error) {
	_, err = c.do(ctx, http.MethodGet, join("clock"), nil, &out)
	return out, err
}

// MoveClock implements api.Clock.
func (c *Client) MoveClock(ctx context.Context, m api.ClockMove) (out api.ClockState, err error) {
	_, err = c.do(ctx, http.MethodPost, join("clock"), m, &out)
	return out, err
}
