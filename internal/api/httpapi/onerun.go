package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/pawl-dev/pawl/internal/api"
)

func (c *Client) Run(ctx context.Context, name string) (*api.Run, error) {
	path, err := runPath(name)
	if err != nil {
		return nil, err
	}
	out := &api.Run{}
	if _, err = c.do(ctx, http.MethodGet, path, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Client) RunAt(ctx context.Context, name string, event int) (*api.Run, error) {
	path, err := runPath(name)
	if err != nil {
		return nil, err
	}
	out := &api.Run{}
	if _, err = c.do(ctx, http.MethodGet, path+"?at="+strconv.Itoa(event), nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Client) Forecast(ctx context.Context, name string, q api.ForecastRequest) (*api.Run, error) {
	path, err := runPath(name, "forecast")
	if err != nil {
		return nil, err
	}
	out := &api.Run{}
	if _, err = c.do(ctx, http.MethodPost, path, q, out); err != nil {
		return nil, err
	}
	return out, nil
}
