package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// updateAnswer is the answer to an update.
type updateAnswer struct {
	Status int
	Body   api.Answer
}

// updateRoutes adds updates, which are requests that the bodies of runs answer.
func (s *Server) updateRoutes(a huma.API) {
	op := under(api.RoleOperate, "POST", "/runs/{run}/updates", "sendUpdate", "events",
		"Send an update to a run, and get its answer")
	op.Description = "The body of a Go workflow answers it. 202 says that it has not done so yet, and why: send the " +
		"update again with the same id, and you get its answer. Go workflows are the server's own " +
		"(pawlhttp.Handler), or processes serve them (pawlhttp.Serve)."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		Wait length `query:"wait" doc:"How long to wait at most: 30s, which is the default; at most 5m."`
		Body api.Update
	},
	) (*updateAnswer, error) {
		wait := in.Wait.Std()
		if wait <= 0 {
			wait = updateWait
		}
		return s.update(ctx, in.Run, in.Body, min(wait, waitAtMost))
	})
	answers := a.OpenAPI().Paths[op.Path].Post.Responses
	answers["202"] = &huma.Response{Description: "It has no answer yet.", Content: answers["200"].Content}
}

// updateWait is how long a request waits for the answer to an update by default.
const updateWait = 30 * time.Second

// update sends an update and waits for its answer.
func (s *Server) update(ctx context.Context, run string, u api.Update, wait time.Duration) (*updateAnswer, error) {
	if s.cfg.Updates == nil {
		return nil, httpapi.ProblemOf(&api.Error{
			Code: api.CodeInvalid, Message: "this server carries on no Go workflows, and only these take updates",
			Hint: "ask the server of the program that has the workflow",
		})
	}
	if u.ID == "" {
		u.ID = rand.Text()
	}
	within, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("there is no answer after %s", wait))
	defer cancel()
	defer context.AfterFunc(s.over, cancel)()
	s.streams.Add(1)
	defer s.streams.Add(-1)
	out, err := s.cfg.Updates.Update(within, run, u)
	switch {
	case err == nil:
		return &updateAnswer{http.StatusOK, out}, nil
	case within.Err() != nil && ctx.Err() == nil:
		return &updateAnswer{http.StatusAccepted, api.Answer{Open: err.Error()}}, nil
	default:
		return nil, httpapi.ProblemOf(err)
	}
}
