package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
)

// pruneRoutes adds the removal of old runs.
func (s *Server) pruneRoutes(a huma.API) {
	op := under(api.RoleAdmin, "POST", "/prune", "prune", "server",
		"Remove runs that ended some time ago, with their logs")
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.PruneRequest }) (*answered[api.Pruned], error) {
		if s.cfg.Pruner == nil {
			return body(api.Pruned{}, &api.Error{Code: api.CodeReadOnly, Message: "this server removes nothing"})
		}
		return body(s.cfg.Pruner.Prune(ctx, in.Body))
	})
}
