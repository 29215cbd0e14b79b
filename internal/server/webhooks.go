package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// OfWebhook is the input of requests about a webhook.
type OfWebhook struct {
	Webhook string `path:"webhook" doc:"The webhook's name."`
}

// addedWebhook is the answer to the registration of a webhook.
type addedWebhook struct {
	Location string `header:"Location"`
	Body     api.Webhook
}

// deliveryQuery are the parameters of a list of deliveries.
type deliveryQuery struct {
	OfWebhook
	State  string  `query:"state" enum:"pending,delivered,failed" doc:"Deliveries in this state."`
	Run    string  `query:"run" doc:"Deliveries of the events of this run: its run id."`
	Since  instant `query:"since" doc:"Deliveries of events at this instant or later."`
	Limit  int     `query:"limit" minimum:"1" maximum:"1000" doc:"How many at most; default 50."`
	Cursor string  `query:"cursor" doc:"Next of the page before."`
}

// webhooks returns the webhooks, or a problem if there are none.
func (s *Server) webhooks() (api.Webhooks, error) {
	if s.cfg.Webhooks == nil {
		return nil, httpapi.ProblemOf(&api.Error{Code: api.CodeReadOnly, Message: "this server has no webhooks"})
	}
	return s.cfg.Webhooks, nil
}

// hooked adds a route about webhooks.
func hooked[I, O any](
	s *Server, a huma.API, op huma.Operation, fn func(ctx context.Context, hooks api.Webhooks, in *I) (*O, error),
) {
	huma.Register(a, op, func(ctx context.Context, in *I) (*O, error) {
		hooks, err := s.webhooks()
		if err != nil {
			return nil, err
		}
		return fn(ctx, hooks, in)
	})
}

// webhookRoutes adds what registers webhooks and changes them.
func (s *Server) webhookRoutes(a huma.API) {
	op := under(api.RoleAdmin, "POST", "/webhooks", "addWebhook", "webhooks", "Register a webhook")
	op.Description = "The events that it asks for are sent to its URL from now on, signed as Standard Webhooks has " +
		"it. The answer has the secret, which is never shown again."
	op.DefaultStatus = http.StatusCreated
	hooked(s, a, op, func(ctx context.Context, hooks api.Webhooks, in *struct{ Body api.WebhookRequest }) (
		*addedWebhook, error,
	) {
		h, err := hooks.AddWebhook(ctx, in.Body)
		if err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		return &addedWebhook{httpapi.Base + "/webhooks/" + url.PathEscape(h.Name), h}, nil
	})
	hooked(s, a, under(api.RoleRead, "GET", "/webhooks", "listWebhooks", "webhooks", "List webhooks"),
		func(ctx context.Context, hooks api.Webhooks, _ *struct{}) (*answered[httpapi.WebhookList], error) {
			all, err := hooks.Webhooks(ctx)
			return body(httpapi.WebhookList{Webhooks: all}, err)
		})
	hooked(s, a, under(api.RoleRead, "GET", "/webhooks/{webhook}", "getWebhook", "webhooks", "Get a webhook"),
		func(ctx context.Context, hooks api.Webhooks, in *OfWebhook) (*answered[api.Webhook], error) {
			return body(hooks.Webhook(ctx, in.Webhook))
		})
	hooked(s, a, under(api.RoleAdmin, "PATCH", "/webhooks/{webhook}", "changeWebhook", "webhooks",
		"Change a webhook, disable it or enable it"),
		func(ctx context.Context, hooks api.Webhooks, in *struct {
			OfWebhook
			Body api.WebhookChange
		},
		) (*answered[api.Webhook], error) {
			return body(hooks.ChangeWebhook(ctx, in.Webhook, in.Body))
		})
	op = under(api.RoleAdmin, "DELETE", "/webhooks/{webhook}", "removeWebhook", "webhooks",
		"Remove a webhook with its deliveries")
	op.DefaultStatus = http.StatusNoContent
	hooked(s, a, op, func(ctx context.Context, hooks api.Webhooks, in *OfWebhook) (*struct{}, error) {
		return done(hooks.RemoveWebhook(ctx, in.Webhook))
	})
	op = under(api.RoleAdmin, "POST", "/webhooks/{webhook}/rotate", "rotateSecret", "webhooks",
		"Give a webhook a new secret")
	op.Description = "The answer has the secret, which is never shown again. Until the overlap is over, messages are " +
		"signed with the old one too."
	hooked(s, a, op, func(ctx context.Context, hooks api.Webhooks, in *struct {
		OfWebhook
		Body *api.Rotation
	},
	) (*answered[api.Webhook], error) {
		if in.Body == nil {
			in.Body = &api.Rotation{}
		}
		return body(hooks.RotateSecret(ctx, in.Webhook, *in.Body))
	})
	s.deliveryRoutes(a)
}

// deliveryRoutes adds the requests about the deliveries of a webhook.
func (s *Server) deliveryRoutes(a huma.API) {
	hooked(s, a, under(api.RoleRead, "GET", "/webhooks/{webhook}/deliveries", "listDeliveries", "webhooks",
		"List deliveries, the newest event first"),
		func(ctx context.Context, hooks api.Webhooks, in *deliveryQuery) (*answered[api.DeliveryPage], error) {
			return body(hooks.Deliveries(ctx, in.Webhook, api.DeliveryQuery{
				State: api.DeliveryState(in.State), Run: in.Run, Since: in.Since.Time,
				Limit: in.Limit, Cursor: in.Cursor,
			}))
		})
	hooked(s, a, under(api.RoleRead, "GET", "/webhooks/{webhook}/deliveries/{delivery}", "getDelivery", "webhooks",
		"Get a delivery with its attempts and its payload"),
		func(ctx context.Context, hooks api.Webhooks, in *struct {
			OfWebhook
			Delivery string `path:"delivery" doc:"The delivery's id."`
		},
		) (*answered[api.Delivery], error) {
			return body(hooks.Delivery(ctx, in.Webhook, in.Delivery))
		})
	hooked(s, a, under(api.RoleOperate, "POST", "/webhooks/{webhook}/replay", "replayDeliveries", "webhooks",
		"Send one delivery once more, or all that failed"),
		func(ctx context.Context, hooks api.Webhooks, in *struct {
			OfWebhook
			Body api.ReplayRequest
		},
		) (*answered[api.Replayed], error) {
			return body(hooks.Replay(ctx, in.Webhook, in.Body))
		})
	hooked(s, a, under(api.RoleAdmin, "POST", "/webhooks/{webhook}/test", "testWebhook", "webhooks",
		"Send a test message, once, and tell how that went"),
		func(ctx context.Context, hooks api.Webhooks, in *OfWebhook) (*answered[api.Delivery], error) {
			return body(hooks.TestWebhook(ctx, in.Webhook))
		})
}
