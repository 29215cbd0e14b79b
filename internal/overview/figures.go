package overview

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedules"
)

const (
	parts      = 24    // number of parts of a span
	mostOfSpan = 5_000 // runs of a span that are counted
	mostDue    = 50
	soon       = time.Hour
	mostFlows  = 50
)

// tally counts runs.
type tally struct {
	api.FlowFigures
	took []time.Duration
}

func (t *tally) add(r api.RunSummary) {
	t.Runs++
	switch {
	case r.Phase == api.RunFailed || r.Phase == api.RunTimedOut:
		t.Failed++
	case !r.Phase.Closed():
		t.Open++
	}
	if r.Retrying {
		t.Retrying++
	}
	if r.EndedAt != 0 {
		t.took = append(t.took, r.EndedAt.Sub(r.CreatedAt))
	}
}

// figures returns what was counted, with how long the runs took that ended.
func (t *tally) figures() api.Figures {
	slices.Sort(t.took)
	if n := len(t.took); n > 0 {
		t.P50, t.P95 = api.Duration(t.took[n/2]), api.Duration(t.took[min(n*95/100, n-1)])
	}
	return t.Figures
}

// Overview returns how the runs went that began within a span of time that ends now, and what is due within the hour.
func (s Sources) Overview(ctx context.Context, span time.Duration) (api.Overview, error) {
	now := s.Now()
	o := api.Overview{From: api.At(now.Add(-span)), To: api.At(now), Each: api.Duration(span / parts)}
	var all tally
	by, flows := make([]tally, parts), map[string]*tally{}
	err := s.each(ctx, &o, func(r api.RunSummary) {
		all.add(r)
		by[min(max(int(r.CreatedAt.Sub(o.From)/o.Each.Std()), 0), parts-1)].add(r)
		f := flows[r.Workflow]
		if f == nil {
			f = &tally{FlowFigures: api.FlowFigures{Workflow: r.Workflow}}
			flows[r.Workflow] = f
		}
		f.add(r)
	})
	if err != nil {
		return o, err
	}
	o.All = all.figures()
	for i := range by {
		o.Parts = append(o.Parts, by[i].figures())
	}
	o.Flows = []api.FlowFigures{}
	for f := range maps.Values(flows) {
		f.figures()
		o.Flows = append(o.Flows, f.FlowFigures)
	}
	slices.SortFunc(o.Flows, func(a, b api.FlowFigures) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Workflow, b.Workflow))
	})
	o.Flows = o.Flows[:min(len(o.Flows), mostFlows)]
	if err := s.atPresent(ctx, &o); err != nil {
		return o, err
	}
	o.Due, err = s.due(ctx, now)
	return o, err
}

// each calls fn with the runs of a span, from the newest one on.
func (s Sources) each(ctx context.Context, o *api.Overview, fn func(api.RunSummary)) error {
	q := api.Query{CreatedFrom: o.From, Top: true, Limit: 1000}
	for n := 0; ; {
		page, err := s.Runs.Runs(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page.Runs {
			fn(r)
		}
		if q.Cursor, n = page.Next, n+len(page.Runs); q.Cursor == "" {
			return nil
		}
		if n >= mostOfSpan {
			o.More = true
			return nil
		}
	}
}

// atPresent adds what is open now.
func (s Sources) atPresent(ctx context.Context, o *api.Overview) error {
	open, err := s.Runs.Counts(ctx, api.Query{Top: true, Phases: []api.RunPhase{
		api.RunPending, api.RunRunning, api.RunWaiting, api.RunPaused,
	}})
	if err != nil {
		return err
	}
	retrying, err := s.Runs.Counts(ctx, api.Query{Retrying: true})
	if err != nil {
		return err
	}
	for _, c := range open {
		o.Open += c.Runs
	}
	for _, c := range retrying {
		o.Retrying += c.Runs
	}
	if s.Stats == nil {
		return nil
	}
	if st, err := s.Stats(ctx); err == nil { // a reader of a file counts nothing
		o.Queued, o.Late = st.Queued, st.Late
	}
	return nil
}

// due returns the firings and deadlines of the next hour.
func (s Sources) due(ctx context.Context, now time.Time) ([]api.Due, error) {
	all := []api.Due{}
	page, err := s.Runs.Runs(ctx, api.Query{DeadlineWithin: api.Duration(soon), Limit: mostDue})
	if err != nil {
		return all, err
	}
	for _, r := range page.Runs {
		d := api.Due{At: r.Deadline, Kind: api.DueDeadline, Name: cmp.Or(r.WorkflowID, r.Workflow), Run: r.Run}
		if r.ExpectedEnd != 0 {
			d.Kind = api.DueMissed
		}
		all = append(all, d)
	}
	list, err := schedules.List(ctx, s.Runs, now)
	for _, sch := range list {
		for _, at := range sch.Coming {
			if at.Sub(api.At(now)) <= soon {
				all = append(all, api.Due{At: at, Kind: api.DueFiring, Name: sch.Name})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b api.Due) int { return cmp.Compare(a.At, b.At) })
	return all[:min(len(all), 2*mostDue)], err
}
