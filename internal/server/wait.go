package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// length is a parameter that holds a length of time.
type length struct{ duration.Duration }

// waitAtMost bounds how long one request waits for the end of a run.
const waitAtMost = 5 * time.Minute

// outcome is the answer about the end of a run.
type outcome struct {
	Status int
	Body   api.Outcome
}

// waitRoutes adds what waits: for the end of a run, and for its next event.
func (s *Server) waitRoutes(a huma.API) {
	op := under(api.RoleRead, "GET", "/runs/{run}/outcome", "getOutcome", "runs",
		"Get how a run ended, or wait for that")
	op.Description = "Answers 200 once the run has ended, and 202 with the run's phase if it has not ended after the " +
		"wait. Of runs that follow one another it is the end of the last one."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		Wait length `query:"wait" doc:"How long to wait at most: 30s. Default: not at all; at most 5m."`
	},
	) (*outcome, error) {
		return s.outcome(ctx, in.Run, min(in.Wait.Std(), waitAtMost))
	})
	answers := a.OpenAPI().Paths[op.Path].Get.Responses
	answers["202"] = &huma.Response{Description: "It has not ended yet.", Content: answers["200"].Content}
	op = under(api.RoleRead, "GET", "/runs/{run}/events", "followEvents", "events", "Follow what happens in a run")
	op.Description = "A stream of server-sent events. Each event of the run is a message whose id is its number; " +
		"a client that comes back gives the last one as Last-Event-ID. The message `end` says that the run has ended " +
		"and that all its events were sent; `problem` says why the stream ends otherwise."
	event := a.OpenAPI().Components.Schemas.Schema(typeOf[api.Event](), true, "Event")
	op.Responses = map[string]*huma.Response{
		"200": {
			Description: "The data of each message without a name is an Event.",
			Content:     map[string]*huma.MediaType{httpapi.StreamType: {Schema: event}},
		},
	}
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		After int `query:"after" doc:"The number of the last event that you have seen; default 0: from the beginning."`
		Last  int `header:"Last-Event-ID" doc:"As after; it goes before it."`
	},
	) (*huma.StreamResponse, error) {
		if in.Last != 0 {
			in.After = in.Last
		}
		return s.events(ctx, in.Run, in.After)
	})
}

// outcome waits for the end of a run.
func (s *Server) outcome(ctx context.Context, run string, wait time.Duration) (*outcome, error) {
	within, cancel := context.WithTimeout(ctx, max(wait, 0))
	defer cancel()
	defer context.AfterFunc(s.over, cancel)()
	s.streams.Add(1)
	defer s.streams.Add(-1)
	if wait > 0 {
		out, err := s.cfg.Service.Wait(within, run)
		if err == nil {
			return &outcome{http.StatusOK, out}, nil
		}
		if within.Err() == nil || ctx.Err() != nil {
			return nil, httpapi.ProblemOf(err)
		}
	}
	return s.soFar(ctx, run)
}

// soFar returns how a run has ended, or in which phase it is. If it ended just now, that is its end.
func (s *Server) soFar(ctx context.Context, name string) (*outcome, error) {
	for {
		r, err := s.cfg.Service.Run(ctx, name)
		if err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		out := api.Outcome{Run: r.Run, Phase: r.Phase}
		switch {
		case r.Next != "":
			name = r.Next
		case r.Phase.Closed():
			out.Output, out.Failure = r.Output, r.Failure
			return &outcome{http.StatusOK, out}, nil
		default:
			return &outcome{http.StatusAccepted, out}, nil
		}
	}
}

// events answers with the stream of a run's events. A run that cannot be followed is reported before the stream begins.
func (s *Server) events(ctx context.Context, run string, after int) (*huma.StreamResponse, error) {
	r, err := s.cfg.Service.Run(ctx, run)
	if err == nil && after < 0 { // the service refuses it, in the same words as elsewhere
		err = s.cfg.Service.Watch(ctx, run, after, func(api.Event) error { return nil })
	}
	if err != nil {
		return nil, httpapi.ProblemOf(err)
	}
	return streamed(func(ctx context.Context, out *stream) { s.follow(ctx, r.Run, after, out) }), nil
}

// streamed returns an answer that is sent as a stream of messages.
func streamed(send func(ctx context.Context, out *stream)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(h huma.Context) {
		h.SetHeader("Content-Type", httpapi.StreamType)
		if h.Method() == http.MethodHead { // nobody would get the messages
			return
		}
		if w, ok := h.BodyWriter().(http.ResponseWriter); ok {
			send(h.Context(), &stream{w: w, control: http.NewResponseController(w)})
		}
	}}
}

// follow sends a run's events until it has ended, the caller has gone, or the server closes.
func (s *Server) follow(ctx context.Context, run string, after int, out *stream) {
	s.relay(ctx, out, func(ctx context.Context, send func(id string, data any) error) error {
		return s.cfg.Service.Watch(ctx, run, after, func(ev api.Event) error { return send(strconv.Itoa(ev.Seq), ev) })
	})
}
