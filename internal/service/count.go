package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
)

// Counts implements api.Service. Each phase is a page of the list, so the counts match the list.
func (r *reads) Counts(ctx context.Context, q api.Query) ([]api.Count, error) {
	q, err := q.Read(api.Time(r.now()))
	if err != nil {
		return nil, err
	}
	phases := q.Phases
	if len(phases) == 0 {
		phases = api.RunPhases()
	}
	out := make([]api.Count, 0, len(phases))
	for _, phase := range phases {
		q.Phases, q.Limit, q.Cursor, q.After = []api.RunPhase{phase}, api.MostCounted, "", ""
		page, err := r.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		out = append(out, api.Count{Phase: phase, Runs: len(page.Runs), More: page.Next != ""})
	}
	return out, nil
}
