package pawl

import (
	"context"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// ListRuns lists runs, the newest first.
func (e *Engine) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	query, err := requestOf(&q)
	if err != nil {
		return nil, err
	}
	problems := e.host.bodies.Problems()
	if q.Stuck {
		query.Bodies = map[core.RunID]bool{}
		for id := range problems {
			query.Bodies[id] = true
		}
	}
	page, err := e.engine.List(ctx, query)
	if err != nil {
		return nil, err
	}
	out := make([]client.Summary, len(page.Runs))
	for i := range page.Runs {
		out[i] = summaryOf(&page.Runs[i], problems[page.Runs[i].ID])
	}
	return out, nil
}

// request checks a query.
func requestOf(q *client.Query) (journal.Query, error) {
	out := journal.Query{Workflow: q.Workflow, WorkflowID: q.WorkflowID, Limit: q.Limit, Stuck: q.Stuck}
	for _, name := range q.Phases {
		var phase core.RunPhase
		if err := phase.UnmarshalText([]byte(name)); err != nil {
			return out, invalid(err, "list: phase")
		}
		out.Phases = append(out.Phases, phase)
	}
	var err error
	if out.Labels, err = labelsOf(q.Labels, "list"); err != nil {
		return out, err
	}
	if !q.CreatedFrom.IsZero() {
		out.CreatedFrom = policy.At(q.CreatedFrom)
	}
	if !q.CreatedBefore.IsZero() {
		out.CreatedBefore = policy.At(q.CreatedBefore)
	}
	if q.After != "" {
		if out.After, err = core.ParseRunID(q.After); err != nil {
			return out, invalid(err, "list: after")
		}
	}
	return out, nil
}

// summaryOf is a row of a list. The problem is that of the run's body, if it has one.
func summaryOf(r *journal.RunRow, problem error) client.Summary {
	s := client.Summary{
		ID: r.ID.String(), Workflow: r.Workflow, WorkflowID: r.WorkflowID, Phase: client.Phase(r.Phase.String()),
		CreatedAt: r.CreatedAt.Std(), EndedAt: r.EndedAt.Std(), Deadline: r.Deadline.Std(), Labels: r.Labels.Map(),
	}
	switch {
	case r.Phase.Closed():
	case problem != nil:
		s.Problem = problem.Error()
	case r.Wake == journal.WakeSetAside:
		s.Problem = r.Message
	default:
		s.Held = r.Message
	}
	return s
}
