package httpapi

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.Changes = (*Client)(nil)

// Changes implements api.Changes. A stream that breaks is opened again after the last change that fn has got.
func (c *Client) Changes(ctx context.Context, q api.Query, after string, fn func(api.Change) error) error {
	q.Limit, q.Cursor = 0, ""
	return c.stream(ctx, func() *streaming {
		w := &following{after: &after, fn: fn}
		v := values(q)
		if after != "" {
			v.Set("after", after)
		}
		return &streaming{client: c, path: join("events") + "?" + v.Encode(), take: w.take}
	})
}

// following is one call of Changes.
type following struct {
	after *string // the last change that fn has got
	fn    func(api.Change) error
}

func (w *following) take(data []byte) error {
	var change api.Change
	if err := json.Unmarshal(data, &change); err != nil {
		return &unreadableError{err}
	}
	if again := *w.after != "" && change.Event == nil && !change.Missed; !again {
		if err := w.fn(change); err != nil {
			return err
		}
	}
	*w.after = change.ID
	return nil
}
