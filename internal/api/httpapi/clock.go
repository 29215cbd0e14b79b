package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Clock = (*Client)(nil)

// ClockHeader is in every answer of a server whose clock moves only when somebody moves it, and has the time of that
// clock.
const ClockHeader = "Pawl-Clock"

// Now returns the last time that the server's clock showed, if somebody moves it. It asks the server if that has
// answered nothing yet. A server that does not answer is not an error here: the next request will fail.
func (c *Client) Now(ctx context.Context) (at api.Time, stands bool) {
	if !c.answered.Load() {
		_, _ = c.Clock(ctx)
	}
	at = api.Time(c.shown.Load())
	return at, at != 0
}

// note remembers the time of the server's clock from an answer.
func (c *Client) note(answer http.Header) {
	c.answered.Store(true)
	var at api.Time
	if at.UnmarshalText([]byte(answer.Get(ClockHeader))) == nil && at != 0 {
		c.shown.Store(int64(at))
	}
}

func (c *Client) Clock(ctx context.Context) (out api.ClockState, err error) {
	_, err = c.do(ctx, http.MethodGet, join("clock"), nil, &out)
	return out, err
}

func (c *Client) MoveClock(ctx context.Context, m api.ClockMove) (out api.ClockState, err error) {
	_, err = c.do(ctx, http.MethodPost, join("clock"), m, &out)
	return out, err
}
