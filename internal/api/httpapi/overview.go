package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
)

// Attention returns what needs a person.
func (c *Client) Attention(ctx context.Context) (out api.Attention, err error) {
	_, err = c.do(ctx, http.MethodGet, join("attention"), nil, &out)
	return out, err
}

// Queues returns what waits for workers, what limits hold back, and who works.
func Queues(ctx context.Context, c *Client) (out api.QueueReport, err error) {
	_, err = c.do(ctx, http.MethodGet, join("queues"), nil, &out)
	return out, err
}

// Overview returns how the runs of a span of time went that ends now.
func (c *Client) Overview(ctx context.Context, span time.Duration) (out api.Overview, err error) {
	_, err = c.do(ctx, http.MethodGet, join("overview")+"?over="+duration.Format(span), nil, &out)
	return out, err
}
