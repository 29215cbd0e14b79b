package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/judge"
)

type findings struct {
	Findings []judge.Finding `json:"findings"`
}

type policyInput struct{ Body api.PolicyRequest }

// mostTexts is how many texts are read at once, of flows and policies, because each takes much memory.
const mostTexts = 1

// reading calls read when it is its turn.
func reading[T any](ctx context.Context, s *Server, read func() (T, error)) (out T, err error) {
	select {
	case s.texts <- struct{}{}:
		defer func() { <-s.texts }()
		return read()
	case <-ctx.Done():
		return out, &api.Error{Code: api.CodeCancelled, Message: "the caller has gone", Err: ctx.Err()}
	}
}

// answerOn returns the answer about a policy.
func answerOn[T any](
	ctx context.Context, s *Server, r api.PolicyRequest, tell func(context.Context, api.PolicyRequest) (T, error),
) (T, error) {
	return reading(ctx, s, func() (T, error) { return tell(ctx, r) })
}

// policyRoutes adds the requests about policies.
func (s *Server) policyRoutes(a huma.API) {
	if s.cfg.Policies == nil {
		s.cfg.Policies = noPolicies{}
	}
	op := under(api.RoleRead, "POST", "/policies/explain", "explainPolicy", "policies",
		"Tell which attempts a policy makes")
	op.Description = "Every attempt goes wrong: by itself, or at its limit. What the steps of a run will come to is " +
		"told by its forecast."
	huma.Register(a, op, func(ctx context.Context, in *policyInput) (*answered[api.Explained], error) {
		return body(answerOn(ctx, s, in.Body, s.cfg.Policies.ExplainPolicy))
	})
	op = under(api.RoleRead, "POST", "/policies/simulate", "simulatePolicy", "policies",
		"Tell what becomes of a scripted step")
	huma.Register(a, op, func(ctx context.Context, in *policyInput) (*answered[api.Simulated], error) {
		return body(answerOn(ctx, s, in.Body, s.cfg.Policies.SimulatePolicy))
	})
	op = under(api.RoleRead, "POST", "/policies/lint", "lintPolicy", "policies",
		"Find what can never have an effect in a policy")
	huma.Register(a, op, func(ctx context.Context, in *policyInput) (*answered[findings], error) {
		found, err := answerOn(ctx, s, in.Body, s.cfg.Policies.LintPolicy)
		return body(findings{found}, err)
	})
}

// noPolicies answers if there are no requests about policies.
type noPolicies struct{}

var errNoPolicies = &api.Error{Code: api.CodeReadOnly, Message: "this server does not explain policies"}

func (noPolicies) ExplainPolicy(context.Context, api.PolicyRequest) (api.Explained, error) {
	return api.Explained{}, errNoPolicies
}

func (noPolicies) SimulatePolicy(context.Context, api.PolicyRequest) (api.Simulated, error) {
	return api.Simulated{}, errNoPolicies
}

func (noPolicies) LintPolicy(context.Context, api.PolicyRequest) ([]judge.Finding, error) {
	return nil, errNoPolicies
}
