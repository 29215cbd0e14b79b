package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Clock = (*Client)(nil)

// ClockHeader tells in every answer of a server what its clock shows, if that stands until somebody moves it.
const ClockHeader = "Pawl-Clock"

// Now returns what the server's clock showed last, if that one stands. It asks the server if that has answered nothing
// yet. A server that does not answer is no reason to fail: the next request will tell.
func (c *Client) Now(ctx context.Context) (at api.Time, stands bool) {
	if !c.answered.Load() {
		_, _ = c.Clock(ctx)
	}
	at = api.Time(c.shown.Load())
	return at, at != 0
}

// note keeps what an answer tells of the server's clock.
func (c *Client) note(answer http.Header) {
	c.answered.Store(true)
	var at api.Time
	if at.UnmarshalText([]byte(answer.Get(ClockHeader))) == nil && at != 0 {
		c.shown.Store(int64(at))
	}
}

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
