package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Access = (*Client)(nil)

// TokenList is the answer to a list of tokens.
type TokenList struct {
	Tokens []api.Token `json:"tokens"`
}

func (c *Client) CreateToken(ctx context.Context, r api.TokenRequest) (out api.Token, err error) {
	_, err = c.do(ctx, http.MethodPost, join("tokens"), r, &out)
	return out, err
}

func (c *Client) Tokens(ctx context.Context) ([]api.Token, error) {
	var out TokenList
	_, err := c.do(ctx, http.MethodGet, join("tokens"), nil, &out)
	return out.Tokens, err
}

func (c *Client) RevokeToken(ctx context.Context, name string) error {
	if name == "" { // it would be the path of something else
		return &api.Error{Code: api.CodeInvalid, Message: "the name of the token is empty"}
	}
	_, err := c.do(ctx, http.MethodDelete, join("tokens", name), nil, nil)
	return err
}

func (c *Client) Audit(ctx context.Context, q api.AuditQuery) (out api.AuditPage, err error) {
	v := url.Values{}
	for name, value := range map[string]string{"actor": q.Actor, "since": q.Since.String(), "cursor": q.Cursor} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	path := join("audit")
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	_, err = c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}
