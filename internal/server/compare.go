package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
)

// mostDifferences is how many differences of two runs are listed.
const mostDifferences = 1000

// compareRoute adds what compares two runs.
func compareRoute(s *Server, a huma.API) {
	op := under(api.RoleRead, "GET", "/runs/{run}/diff", "diffRuns", "runs", "Compare a run with another one")
	op.Description = "The run itself and each step: input, definition, end, attempts, time and output. Of times it " +
		"tells those that differ by half and by more than a second. The first 1000 differences are told."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		With string `query:"with" doc:"The other run. Default: the run of the same workflow before it."`
	},
	) (*answered[api.Comparison], error) {
		return body(compare(ctx, s.cfg.Service, in.Run, in.With))
	})
}

// compare compares a run with another one, or with the earlier run of its workflow. The older one comes first.
func compare(ctx context.Context, from api.Reader, run, with string) (out api.Comparison, err error) {
	two, err := from.Run(ctx, run)
	if err != nil {
		return out, err
	}
	var one *api.Run
	if with == "" {
		one, err = api.RunBefore(ctx, from, two)
	} else {
		one, err = from.Run(ctx, with)
	}
	if err != nil {
		return out, err
	}
	if one.CreatedAt > two.CreatedAt {
		one, two = two, one
	}
	all := api.Differences(one, two)
	all = all[:min(len(all), mostDifferences)]
	return api.Comparison{A: one.Run, B: two.Run, Differences: all}, nil
}
