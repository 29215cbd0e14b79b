package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

type findings struct {
	Findings []policy.Finding `json:"findings"`
}

type policyInput struct{ Body api.PolicyRequest }

// policyRoutes adds what tells what policies do.
func (s *Server) policyRoutes(a huma.API) {
	lab := func() (api.Policies, error) {
		if s.cfg.Policies == nil {
			return nil, &api.Error{Code: api.CodeReadOnly, Message: "this server tells nothing about policies"}
		}
		return s.cfg.Policies, nil
	}
	op := under("POST", "/policies/explain", "explainPolicy", "policies", "Tell which attempts a policy makes")
	op.Description = "Every attempt goes wrong: by itself, or at its limit. What the steps of a run will come to is " +
		"told by its forecast."
	huma.Register(a, op, func(ctx context.Context, in *policyInput) (*answered[api.Explained], error) {
		l, err := lab()
		if err != nil {
			return body(api.Explained{}, err)
		}
		return body(l.ExplainPolicy(ctx, in.Body))
	})
	op = under("POST", "/policies/simulate", "simulatePolicy", "policies", "Tell what becomes of a scripted step")
	huma.Register(a, op, func(ctx context.Context, in *policyInput) (*answered[api.Simulated], error) {
		l, err := lab()
		if err != nil {
			return body(api.Simulated{}, err)
		}
		return body(l.SimulatePolicy(ctx, in.Body))
	})
	op = under("POST", "/policies/lint", "lintPolicy", "policies", "Find what can never have an effect in a policy")
	huma.Register(a, op, func(ctx context.Context, in *policyInput) (*answered[findings], error) {
		l, err := lab()
		if err != nil {
			return body(findings{}, err)
		}
		found, err := l.LintPolicy(ctx, in.Body)
		return body(findings{found}, err)
	})
}
