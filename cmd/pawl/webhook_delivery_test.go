package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// manyHooks has the webhooks a and b, with deliveries of a run in pages of two. Every other page is empty, as it is
// where many deliveries of other runs were looked at.
type (
	manyHooks struct{ otherCalls }
	// otherCalls are those that nobody makes.
	otherCalls interface{ api.Webhooks }
)

func (manyHooks) Webhooks(context.Context) ([]api.Webhook, error) {
	return []api.Webhook{{Name: "a"}, {Name: "b"}}, nil
}

func (manyHooks) Deliveries(_ context.Context, name string, q api.DeliveryQuery) (out api.DeliveryPage, err error) {
	ids := map[string][]string{"a": {"evt_5", "evt_4", "evt_2"}, "b": {"evt_4", "evt_3", "evt_1"}}[name]
	if q.Cursor == "" {
		return api.DeliveryPage{Next: "evt_9"}, nil
	}
	for _, id := range ids {
		if id < q.Cursor && len(out.Deliveries) < min(q.Limit, 2) {
			out.Deliveries = append(out.Deliveries, api.Delivery{ID: id, Webhook: name, Run: q.Run})
			out.Next = id
		}
	}
	if slices.Index(ids, out.Next) == len(ids)-1 {
		out.Next = ""
	}
	return out, nil
}

// TestDeliveriesOfARun checks that all webhooks are asked until the limit, and the newest events come first.
func TestDeliveriesOfARun(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]string{
		10: "evt_5 a, evt_4 a, evt_4 b, evt_3 b, evt_2 a, evt_1 b",
		6:  "evt_5 a, evt_4 a, evt_4 b, evt_3 b, evt_2 a, evt_1 b",
		2:  "evt_5 a, evt_4 a and more",
	} {
		var out bytes.Buffer
		a := &app{streams: streams{Out: &out, Err: &out}}
		err := a.listDeliveriesOfRun(t.Context(), manyHooks{}, api.DeliveryQuery{Run: "r", Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			f := strings.Fields(line)
			if at := slices.IndexFunc(f, func(s string) bool { return strings.HasPrefix(s, "evt_") }); at > 0 {
				got = append(got, fmt.Sprint(f[at], " ", f[slices.IndexFunc(f, isHook)]))
			}
		}
		text := strings.Join(got, ", ")
		if strings.Contains(out.String(), "There may be more") {
			text += " and more"
		}
		if text != want {
			t.Errorf("with limit %d: %s, want %s\n%s", limit, text, want, out.String())
		}
	}
}

func isHook(s string) bool { return s == "a" || s == "b" }
