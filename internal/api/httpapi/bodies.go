package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Bodies = (*Client)(nil)

func (c *Client) JoinBodies(ctx context.Context, r api.BodiesJoin) error {
	_, err := c.do(ctx, http.MethodPost, join("bodies", "join"), r, nil)
	return err
}

func (c *Client) BodiesNodes(ctx context.Context, r api.BodiesNodesRequest) (out api.BodiesNodes, err error) {
	_, err = c.do(ctx, http.MethodPost, join("bodies", "nodes"), r, &out)
	return out, err
}

func (c *Client) TakeNews(ctx context.Context, r api.NewsRequest) (out api.News, err error) {
	_, err = c.do(ctx, http.MethodPost, join("bodies", "news"), r, &out)
	return out, err
}

func (c *Client) GiveDecisions(ctx context.Context, r api.Decisions) (out api.DecisionAnswers, err error) {
	_, err = c.do(ctx, http.MethodPost, join("bodies", "decisions"), r, &out)
	return out, err
}
