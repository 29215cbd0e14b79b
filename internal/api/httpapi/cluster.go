package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Cluster = (*Client)(nil)

func (c *Client) Cluster(ctx context.Context) (out api.ClusterStatus, err error) {
	_, err = c.do(ctx, http.MethodGet, join("cluster"), nil, &out)
	return out, err
}

func (c *Client) Drain(ctx context.Context, r api.NodeDrain) error {
	_, err := c.do(ctx, http.MethodPost, join("cluster", "drain"), r, nil)
	return err
}

func (c *Client) Move(ctx context.Context, r api.PartitionMove) error {
	_, err := c.do(ctx, http.MethodPost, join("cluster", "move"), r, nil)
	return err
}

func (c *Client) AddStore(ctx context.Context, r api.StoreAdd) error {
	_, err := c.do(ctx, http.MethodPost, join("cluster", "stores"), r, nil)
	return err
}

func (c *Client) RemoveStore(ctx context.Context, r api.StoreRemove) error {
	_, err := c.do(ctx, http.MethodPost, join("cluster", "stores", "remove"), r, nil)
	return err
}

func (c *Client) MoveToStore(ctx context.Context, r api.StoreMove) error {
	_, err := c.do(ctx, http.MethodPost, join("cluster", "stores", "move"), r, nil)
	return err
}
