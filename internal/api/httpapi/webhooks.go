package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Webhooks = (*Client)(nil)

// WebhookList is the answer to a list of webhooks.
type WebhookList struct {
	Webhooks []api.Webhook `json:"webhooks"`
}

// hookPath makes the path of something of a webhook. An empty name would be the path of something else.
func hookPath(name string, parts ...string) (string, error) {
	if name == "" {
		return "", &api.Error{Code: api.CodeInvalid, Message: "the name of the webhook is empty"}
	}
	return join(append([]string{"webhooks", name}, parts...)...), nil
}

// hook asks for something of a webhook.
func (c *Client) hook(ctx context.Context, method, name string, in, out any, parts ...string) error {
	path, err := hookPath(name, parts...)
	if err == nil {
		_, err = c.do(ctx, method, path, in, out)
	}
	return err
}

func (c *Client) AddWebhook(ctx context.Context, r api.WebhookRequest) (out api.Webhook, err error) {
	_, err = c.do(ctx, http.MethodPost, join("webhooks"), r, &out)
	return out, err
}

func (c *Client) Webhooks(ctx context.Context) ([]api.Webhook, error) {
	var out WebhookList
	_, err := c.do(ctx, http.MethodGet, join("webhooks"), nil, &out)
	return out.Webhooks, err
}

func (c *Client) Webhook(ctx context.Context, name string) (out api.Webhook, err error) {
	return out, c.hook(ctx, http.MethodGet, name, nil, &out)
}

func (c *Client) ChangeWebhook(
	ctx context.Context, name string, change api.WebhookChange,
) (out api.Webhook, err error) {
	return out, c.hook(ctx, http.MethodPatch, name, change, &out)
}

func (c *Client) RemoveWebhook(ctx context.Context, name string) error {
	return c.hook(ctx, http.MethodDelete, name, nil, nil)
}

func (c *Client) RotateSecret(ctx context.Context, name string, r api.Rotation) (out api.Webhook, err error) {
	return out, c.hook(ctx, http.MethodPost, name, r, &out, "rotate")
}

func (c *Client) Deliveries(ctx context.Context, name string, q api.DeliveryQuery) (out api.DeliveryPage, err error) {
	path, err := hookPath(name, "deliveries")
	if err != nil {
		return out, err
	}
	v := url.Values{}
	for key, value := range map[string]string{
		"state": string(q.State), "run": q.Run, "since": q.Since.String(), "cursor": q.Cursor,
	} {
		if value != "" {
			v.Set(key, value)
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	_, err = c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

func (c *Client) Delivery(ctx context.Context, name, id string) (out api.Delivery, err error) {
	if id == "" {
		return out, &api.Error{Code: api.CodeInvalid, Message: "the id of the delivery is empty"}
	}
	return out, c.hook(ctx, http.MethodGet, name, nil, &out, "deliveries", id)
}

func (c *Client) Replay(ctx context.Context, name string, r api.ReplayRequest) (out api.Replayed, err error) {
	return out, c.hook(ctx, http.MethodPost, name, r, &out, "replay")
}

func (c *Client) TestWebhook(ctx context.Context, name string) (out api.Delivery, err error) {
	return out, c.hook(ctx, http.MethodPost, name, nil, &out, "test")
}
