package server

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/overview"
)

// The spans of an overview.
const (
	usualSpan = 24 * time.Hour
	leastSpan = time.Minute
	mostSpan  = 31 * 24 * time.Hour
)

// overviewRoutes adds what needs a person, and how runs went.
func overviewRoutes(s *Server, a huma.API) {
	op := under(api.RoleRead, "GET", "/attention", "getAttention", "server",
		"Tell what needs a person, the worst first")
	op.Description = "Runs that failed alike within a day, will miss their deadlines, cannot go on, are paused, or " +
		"wait for an event; schedules, webhooks and flows that do not work. What has the same cause is one concern."
	huma.Register(a, op, func(ctx context.Context, _ *struct{}) (*answered[api.Attention], error) {
		return body(sourcesOf(s).Attention(ctx))
	})
	op = under(api.RoleRead, "GET", "/overview", "getOverview", "server", "Tell how the runs of a span of time went")
	op.Description = "The newest 5000 of its runs are counted. What is due within the hour comes along."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		Over length `query:"over" doc:"The span, up to now: 24h, which is the default; at most 31d."`
	},
	) (*answered[api.Overview], error) {
		return body(sourcesOf(s).Overview(ctx, spanOf(in.Over)))
	})
	op = under(api.RoleRead, "GET", "/histogram", "getHistogram", "runs", "Count runs by when they began")
	op.Description = "The newest 5000 of the runs that the query chooses are counted. Without createdFrom, or newer " +
		"in q, the span is the one up to now."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		RunQuery
		Over length `query:"over" doc:"The span, up to now or createdBefore: 24h, which is the default; at most 31d."`
	},
	) (*answered[api.Histogram], error) {
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		return body(sourcesOf(s).Histogram(ctx, q, spanOf(in.Over)))
	})
	op = under(api.RoleRead, "GET", "/suggest", "suggestRuns", "runs", "Suggest how to go on with a query")
	op.Description = "For q as somebody writes it: the ways to end its last term, from the newest 500 runs."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		Text string `query:"q" maxLength:"2000" doc:"The text so far."`
	},
	) (*answered[[]api.Suggestion], error) {
		return body(sourcesOf(s).Suggest(ctx, in.Text))
	})
}

// queueRoutes adds what waits for workers.
func queueRoutes(s *Server, a huma.API) {
	op := under(api.RoleRead, "GET", "/queues", "getQueues", "server", "Tell what waits, what holds it, and who works")
	op.Description = "Task queues with their depth and their oldest attempt, how much of each limit is used, " +
		"breakers with their probes, retries by service, and the workers by name. In a cluster it is about the node " +
		"that answers."
	huma.Register(a, op, func(ctx context.Context, _ *struct{}) (*answered[api.QueueReport], error) {
		if s.cfg.QueueReport == nil {
			return body(api.QueueReport{}, &api.Error{
				Code:    api.CodeNotFound,
				Message: "this server has no queues of its own: a Go program carries the runs on",
			})
		}
		return body(s.cfg.QueueReport(ctx))
	})
}

// spanOf returns the span of an overview.
func spanOf(asked length) time.Duration {
	if asked.Std() <= 0 {
		return usualSpan
	}
	return min(max(asked.Std(), leastSpan), mostSpan)
}

// Attention returns what needs a person on a server.
func Attention(ctx context.Context, s *Server) (api.Attention, error) {
	return sourcesOf(s).Attention(ctx)
}

// sourcesOf returns where the overview of a server looks.
func sourcesOf(s *Server) overview.Sources {
	return overview.Sources{
		Runs: s.cfg.Service, Webhooks: s.cfg.Webhooks, Flows: s.flows, Stats: s.cfg.Service.Stats, Now: s.now,
		Minutes: s.cfg.Minutes,
	}
}
