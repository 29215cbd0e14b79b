package server

import (
	"context"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// callerRoute adds the request with which callers learn who they are to the server: a page shows what they may do
// before they try.
func (s *Server) callerRoute(a huma.API) {
	op := under(api.RoleRead, "GET", "/caller", "getCaller", "access", "Tell who the caller is, and what it may do")
	op.Description = "Where no token is asked for, everybody is an admin without a name."
	huma.Register(a, op, func(ctx context.Context, _ *struct{}) (*answered[httpapi.Caller], error) {
		return body(s.callerIn(ctx), nil)
	})
}

// callerIn describes who makes a request in the namespace of s.
func (s *Server) callerIn(ctx context.Context) httpapi.Caller {
	out := httpapi.Caller{
		Role: api.RoleAdmin, Brings: true, Namespace: s.cfg.Namespace, Namespaces: []string{s.cfg.Namespace},
	}
	c := callerOf(ctx)
	if c == nil {
		return out
	}
	out.Guarded, out.Name = true, c.name()
	if !c.local {
		out.Role = c.token.Role
	}
	if c.listener != nil {
		out.Namespaces = c.listener.namespaces()
	}
	out.Brings = mayBring(ctx, true) == nil
	return out
}

// namespaces returns the names of all namespaces, the server's own one first.
func (s *Server) namespaces() []string {
	var others []string
	s.others.Range(func(name, _ any) bool {
		others = append(others, name.(string))
		return true
	})
	slices.Sort(others)
	return append([]string{s.cfg.Namespace}, others...)
}
