package httpapi

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/judge"
)

var _ api.Policies = (*Client)(nil)

func (c *Client) ExplainPolicy(ctx context.Context, r api.PolicyRequest) (out api.Explained, err error) {
	_, err = c.do(ctx, http.MethodPost, join("policies", "explain"), r, &out)
	return out, err
}

func (c *Client) SimulatePolicy(ctx context.Context, r api.PolicyRequest) (out api.Simulated, err error) {
	_, err = c.do(ctx, http.MethodPost, join("policies", "simulate"), r, &out)
	return out, err
}

func (c *Client) LintPolicy(ctx context.Context, r api.PolicyRequest) ([]judge.Finding, error) {
	var out struct{ Findings []judge.Finding }
	_, err := c.do(ctx, http.MethodPost, join("policies", "lint"), r, &out)
	return out.Findings, err
}
