package server

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// changesRoute adds the request that follows all runs.
func (s *Server) changesRoute(a huma.API) {
	op := under(api.RoleRead, "GET", "/events", "followChanges", "events",
		"Follow what happens in all runs, or in those of a query")
	op.Description = "A stream of server-sent events. Each message is a Change: an event, and its run after that as " +
		"a list shows it; `left` says that the query does not select the run any more. The first message has " +
		"neither: it says where the stream begins. So follow first, then list. A client that comes back " +
		"gives the last id as Last-Event-ID. If what happened since is not kept any more, the first message " +
		"has `missed`: list again. `problem` says why the stream ends, such as `lapsed` for a client that " +
		"is too slow. stuck, willMiss and input are not for streams."
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The data of each message without a name is a Change.",
		Content: map[string]*huma.MediaType{httpapi.StreamType: {
			Schema: a.OpenAPI().Components.Schemas.Schema(typeOf[api.Change](), true, "Change"),
		}},
	}}
	huma.Register(a, op, func(ctx context.Context, in *struct {
		RunQuery
		After string `query:"after" doc:"The id of the last change that you have seen; default: begin now."`
		Last  string `header:"Last-Event-ID" doc:"As after; it goes before it."`
	},
	) (*huma.StreamResponse, error) {
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		if in.Last != "" {
			in.After = in.Last
		}
		return s.changes(ctx, q, in.After)
	})
}

// errBegun ends a stream of changes that was opened to see whether it can be.
var errBegun = errors.New("it begins")

// changes answers with the stream of changes. An error while it is opened is returned before it begins.
func (s *Server) changes(ctx context.Context, q api.Query, after string) (*huma.StreamResponse, error) {
	if s.cfg.Changes == nil {
		return nil, httpapi.ProblemOf(&api.Error{
			Code: api.CodeReadOnly, Message: "this server does not learn what happens in runs",
		})
	}
	err := s.cfg.Changes.Changes(ctx, q, after, func(api.Change) error { return errBegun })
	if !errors.Is(err, errBegun) {
		return nil, httpapi.ProblemOf(err)
	}
	return streamed(func(ctx context.Context, out *stream) {
		s.relay(ctx, out, func(ctx context.Context, send func(id string, data any) error) error {
			return s.cfg.Changes.Changes(ctx, q, after, func(c api.Change) error { return send(c.ID, c) })
		})
	}), nil
}

// run returns a run, at once or after something has happened in it since an event.
func (s *Server) run(ctx context.Context, name string, after int, wait time.Duration) (*api.Run, error) {
	r, err := s.cfg.Service.Run(ctx, name)
	if err != nil || wait <= 0 || r.Events > after || r.Phase.Closed() {
		return r, err
	}
	within, cancel := context.WithTimeout(ctx, min(wait, waitAtMost))
	defer cancel()
	defer context.AfterFunc(s.over, cancel)()
	s.streams.Add(1)
	defer s.streams.Add(-1)
	err = s.cfg.Service.Watch(within, r.Run, after, func(api.Event) error { return errBegun })
	if err != nil && !errors.Is(err, errBegun) && within.Err() == nil {
		return nil, err
	}
	return s.cfg.Service.Run(ctx, r.Run)
}

// ofOpenSteps are the types of events of a run that change nothing of its steps, or of those alone that have not ended.
var ofOpenSteps = map[string]bool{
	"run.waiting": true, "run.held": true, "run.paused": true, "run.resumed": true, "run.deadline_warning": true,
	"operation.pause": true, "operation.resume": true, "operation.extend": true,
	"event.received": true, "state.published": true, "update.accepted": true, "update.answered": true,
}

// changedSince returns of a run what may have changed since an event: the open steps, and those to which something has
// happened. It returns the whole run where something has happened to the run itself that may concern any step.
func changedSince(ctx context.Context, service api.Reader, r, shown *api.Run, after int) (*api.Run, error) {
	if after > r.Events {
		return shown, nil // the caller has seen another run
	}
	steps, whole := map[string]bool{}, false
	if after < r.Events {
		err := service.Watch(ctx, r.Run, after, func(e api.Event) error {
			steps[e.Step], whole = true, whole || e.Step == "" && !ofOpenSteps[e.Type]
			if whole || e.Seq >= r.Events {
				return errBegun
			}
			return nil
		})
		if err != nil && !errors.Is(err, errBegun) {
			return nil, err
		}
	}
	if whole {
		return shown, nil
	}
	part := *shown
	part.Partial, part.Input, part.Plan, part.Steps = true, nil, nil, []*api.Step{}
	folded := map[string]bool{}
	for _, s := range shown.Steps {
		folded[s.Step] = s.Folded != nil
		if !s.Phase.Closed() || steps[s.Step] {
			part.Steps = append(part.Steps, s)
		}
	}
	for _, s := range r.Steps {
		if folded[s.Group] && steps[s.Step] { // the caller may have asked for it
			part.Steps = append(part.Steps, s)
		}
	}
	return &part, nil
}
