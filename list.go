package pawl

import (
	"context"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// ListRuns lists runs, the newest first; those with the soonest deadlines first if the query asks for deadlines.
func (e *Engine) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	return listRuns(ctx, e.explained, q)
}

// listRuns lists the runs of a service. What no index knows comes in short pages, so it asks for more of them.
func listRuns(ctx context.Context, from api.Reader, q client.Query) ([]client.Summary, error) {
	query, limit := queryOf(&q), q.Limit
	if limit <= 0 {
		limit = journal.DefaultLimit
	}
	out := []client.Summary{}
	for {
		query.Limit = limit - len(out)
		page, err := from.Runs(ctx, query)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			out = append(out, summaryOf(&page.Runs[i]))
		}
		if page.Next == "" || len(out) >= limit {
			return out, nil
		}
		query.Cursor = page.Next
	}
}

func queryOf(q *client.Query) api.Query {
	out := api.Query{
		Workflow: q.Workflow, WorkflowID: q.WorkflowID, Labels: q.Labels, Stuck: q.Stuck, Parent: q.Parent, Top: q.Top,
		DeadlineWithin: duration.Duration(q.DeadlineWithin), Retrying: q.Retrying, WillMiss: q.WillMiss,
		Input: q.Input, After: q.After,
	}
	for _, p := range q.Phases {
		out.Phases = append(out.Phases, api.RunPhase(p))
	}
	if !q.CreatedFrom.IsZero() {
		out.CreatedFrom = api.Time(policy.At(q.CreatedFrom))
	}
	if !q.CreatedBefore.IsZero() {
		out.CreatedBefore = api.Time(policy.At(q.CreatedBefore))
	}
	return out
}

// summaryOf is a row of a list.
func summaryOf(r *api.RunSummary) client.Summary {
	s := client.Summary{
		ID: r.Run, Workflow: r.Workflow, WorkflowID: r.WorkflowID, Phase: client.Phase(r.Phase),
		CreatedAt: r.CreatedAt.Std(), EndedAt: r.EndedAt.Std(), Deadline: r.Deadline.Std(), Labels: r.Labels,
		Problem: r.Problem,
	}
	if s.Problem == "" && !r.Phase.Closed() {
		s.Held = r.Message
	}
	return s
}
