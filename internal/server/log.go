package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
)

// logRoutes adds what attempts print.
func (s *Server) logRoutes(a huma.API) {
	op := under(api.RoleRead, "GET", "/runs/{run}/steps/{step}/attempts/{attempt}/log", "getLog", "runs",
		"Get what an attempt of an exec step printed")
	op.Description = "Answers a part of stdout and stderr in the order in which they came, as base64, also while the " +
		"attempt runs. `next` is the `from` of the part after it. An empty text means that there is no more at present."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		Step    string `path:"step" doc:"The step: pages, pages[3], or by the name of the item pages[intro]."`
		Attempt int    `path:"attempt"`
		From    int64  `query:"from" minimum:"0" doc:"How many bytes to leave out at the beginning."`
	},
	) (*answered[api.LogPart], error) {
		if s.cfg.Logs == nil {
			return body(api.LogPart{}, &api.Error{Code: api.CodeNotFound, Message: "this server keeps no logs"})
		}
		return body(s.cfg.Logs.Log(ctx, in.Run, api.LogPlace{Step: in.Step, Attempt: in.Attempt, From: in.From}))
	})
}
