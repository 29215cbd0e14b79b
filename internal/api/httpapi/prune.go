package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Pruner = (*Client)(nil)

func (c *Client) Prune(ctx context.Context, r api.PruneRequest) (out api.Pruned, err error) {
	_, err = c.do(ctx, http.MethodPost, join("prune"), r, &out)
	return out, err
}
