package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
)

// clockRoutes adds the request that moves a clock.
func (s *Server) clockRoutes(a huma.API) {
	goes := &api.Error{
		Code: api.CodeReadOnly, Message: "the clock of this server goes by itself",
		Hint: "pawl dev --virtual-time has one that is moved",
	}
	huma.Register(a, under(api.RoleRead, "GET", "/clock", "getClock", "clock", "Tell what a virtual clock shows"),
		func(ctx context.Context, _ *struct{}) (*answered[api.ClockState], error) {
			if s.cfg.Clock == nil {
				return body(api.ClockState{}, goes)
			}
			return body(s.cfg.Clock.Clock(ctx))
		})
	op := under(api.RoleAdmin, "POST", "/clock", "moveClock", "clock", "Move a virtual clock forward")
	op.Description = "What is due on the way happens, each thing at its instant. Attempts that execute are waited " +
		"for, at most a few seconds of the wall clock."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		Body api.ClockMove
	},
	) (*answered[api.ClockState], error) {
		if s.cfg.Clock == nil {
			return body(api.ClockState{}, goes)
		}
		return body(s.cfg.Clock.MoveClock(ctx, in.Body))
	})
}
