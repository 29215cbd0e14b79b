package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Catalog = (*Client)(nil)

// FlowList is the answer to a list of flows, or of a flow's versions.
type FlowList struct {
	Flows []api.Flow `json:"flows"`
}

// ApplyBody is the body of PUT /flows/{flow}: one of Text and Definition.
type ApplyBody struct {
	Text       string          `json:"text,omitempty" doc:"The text of a flow file, YAML or JSON."`
	Definition *api.Definition `json:"definition,omitempty" doc:"A definition as it is stored."`
	Actor      string          `json:"actor,omitempty"`
	Reason     string          `json:"reason,omitempty"`
}

// FlowText is the body of POST /flows/validate.
type FlowText struct {
	Text string `json:"text" doc:"The text of a flow file, YAML or JSON."`
}

func (c *Client) Apply(ctx context.Context, r api.ApplyRequest) (out api.Flow, err error) {
	path, err := flowPath(r.Definition.Name)
	if err == nil {
		body := ApplyBody{Definition: &r.Definition, Actor: r.Actor, Reason: r.Reason}
		_, err = c.do(ctx, http.MethodPut, path, body, &out)
	}
	return out, err
}

func (c *Client) Flows(ctx context.Context) ([]api.Flow, error) {
	var out FlowList
	_, err := c.do(ctx, http.MethodGet, join("flows"), nil, &out)
	return out.Flows, err
}

func (c *Client) Versions(ctx context.Context, name string) ([]api.Flow, error) {
	path, err := flowPath(name, "versions")
	if err != nil {
		return nil, err
	}
	var out FlowList
	_, err = c.do(ctx, http.MethodGet, path, nil, &out)
	return out.Flows, err
}

func (c *Client) Flow(ctx context.Context, name string, version int) (out api.Flow, err error) {
	path, err := flowPath(name)
	if err != nil {
		return out, err
	}
	if version != 0 {
		path += "?version=" + strconv.Itoa(version)
	}
	_, err = c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// flowPath makes the path of something of a flow. An empty name would be the path of something else.
func flowPath(name string, parts ...string) (string, error) {
	if name == "" {
		return "", &api.Error{Code: api.CodeInvalid, Message: "the name of the flow is empty"}
	}
	return join(append([]string{"flows", name}, parts...)...), nil
}
