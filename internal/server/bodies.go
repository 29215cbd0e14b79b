package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

const bodiesText = `Bodies of workflows in Go run in processes of their own. A process joins with its workflows, and
from then on it is told in news what happens to their runs, and says in decisions what they do next. A process that is
silent for 10s loses its runs to others and has to join again (409). In a cluster it joins each node, through any of
them. News and decisions are JSON in base64, in the form of the
structs Body… of package internal/api; pawlhttp.Serve speaks it.`

// bodiesRoutes adds the requests of processes that serve workflows.
func (s *Server) bodiesRoutes(a huma.API) {
	if s.cfg.Bodies == nil {
		s.cfg.Bodies = noBodies{}
	}
	op := under(api.RoleWorker, "POST", "/bodies/join", "joinBodies", "workers", "Serve workflows")
	op.Description, op.DefaultStatus = bodiesText, http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.BodiesJoin }) (*struct{}, error) {
		if err := mayTake(ctx, ""); err != nil { // decisions of a body begin steps of any queue
			return nil, httpapi.ProblemOf(err)
		}
		return done(s.cfg.Bodies.JoinBodies(ctx, in.Body))
	})
	huma.Register(a, under(api.RoleWorker, "POST", "/bodies/nodes", "bodiesNodes", "workers",
		"List the nodes to serve workflows for"),
		func(ctx context.Context, in *struct{ Body api.BodiesNodesRequest }) (*answered[api.BodiesNodes], error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.over, cancel)()
			return body(s.cfg.Bodies.BodiesNodes(ctx, in.Body))
		})
	huma.Register(a, under(api.RoleWorker, "POST", "/bodies/news", "takeNews", "workers",
		"Take news of runs, or wait for them"),
		func(ctx context.Context, in *struct{ Body api.NewsRequest }) (*answered[api.News], error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.over, cancel)()
			return body(s.cfg.Bodies.TakeNews(ctx, in.Body))
		})
	huma.Register(a, under(api.RoleWorker, "POST", "/bodies/decisions", "giveDecisions", "workers",
		"Decide what runs do next"),
		func(ctx context.Context, in *struct{ Body api.Decisions }) (*answered[api.DecisionAnswers], error) {
			return body(s.cfg.Bodies.GiveDecisions(ctx, in.Body))
		})
}

// noBodies answers if no process may serve workflows.
type noBodies struct{}

var errNoBodies = &api.Error{
	Code: api.CodeReadOnly, Op: "serve", Message: "workflows cannot be served for this server",
	Hint: "pawl dev and pawl server can; a Go program that is a server has workflows of its own",
}

func (noBodies) JoinBodies(context.Context, api.BodiesJoin) error { return errNoBodies }

func (noBodies) BodiesNodes(context.Context, api.BodiesNodesRequest) (api.BodiesNodes, error) {
	return api.BodiesNodes{}, errNoBodies
}

func (noBodies) TakeNews(context.Context, api.NewsRequest) (api.News, error) {
	return api.News{}, errNoBodies
}

func (noBodies) GiveDecisions(context.Context, api.Decisions) (api.DecisionAnswers, error) {
	return api.DecisionAnswers{}, errNoBodies
}
