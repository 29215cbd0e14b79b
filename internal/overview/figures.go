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

// figures returns the counts, with how long the runs took that ended.
func (t *tally) figures() api.Figures {
	slices.Sort(t.took)
	if n := len(t.took); n > 0 {
		t.P50, t.P95 = api.Duration(t.took[n/2]), api.Duration(t.took[min(n*95/100, n-1)])
	}
	return t.Figures
}

// Histogram returns how the runs of a query went that began within a span of time that ends now, unless the query
// bounds when.
func (s Sources) Histogram(ctx context.Context, q api.Query, span time.Duration) (api.Histogram, error) {
	return s.histogram(ctx, q, span, func(api.RunSummary) {})
}

// histogram counts the runs of a query by when they began, and calls also with each.
func (s Sources) histogram(
	ctx context.Context, q api.Query, span time.Duration, also func(api.RunSummary),
) (h api.Histogram, err error) {
	now := api.At(s.Now())
	if q, err = q.Read(now); err != nil {
		return h, err
	}
	h.To = cmp.Or(q.CreatedBefore, now)
	h.From = cmp.Or(q.CreatedFrom, api.At(h.To.Std().Add(-span)))
	q.CreatedFrom = h.From
	each := max(h.To.Sub(h.From)/parts, time.Microsecond)
	h.Each = api.Duration(each)
	var all tally
	by := make([]tally, parts)
	h.More, err = s.each(ctx, q, func(r api.RunSummary) {
		all.add(r)
		by[min(max(int(r.CreatedAt.Sub(h.From)/each), 0), parts-1)].add(r)
		also(r)
	})
	h.All = all.figures()
	for i := range by {
		h.Parts = append(h.Parts, by[i].figures())
	}
	return h, err
}

// Overview returns how the runs went that began within a span of time that ends now, and what is due within the hour.
func (s Sources) Overview(ctx context.Context, span time.Duration) (o api.Overview, err error) {
	flows := map[string]*tally{}
	now := api.At(s.Now())
	counting, err := s.minutes(ctx, api.At(now.Std().Add(-span)), now)
	if err != nil {
		return o, err
	}
	o.Histogram, err = s.histogram(ctx, api.Query{Top: true}, span, func(r api.RunSummary) {
		counting.run(r)
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
	o.Counted = counting.counted()
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
	o.Due, err = s.due(ctx, s.Now())
	return o, err
}

// each calls fn with the runs of a query, from the newest one on. It reports whether there are more than it took.
func (s Sources) each(ctx context.Context, q api.Query, fn func(api.RunSummary)) (more bool, err error) {
	q.Limit = 1000
	for n := 0; ; {
		page, err := s.Runs.Runs(ctx, q)
		if err != nil {
			return false, err
		}
		for _, r := range page.Runs {
			fn(r)
		}
		if q.Cursor, n = page.Next, n+len(page.Runs); q.Cursor == "" {
			return false, nil
		}
		if n >= mostOfSpan {
			return true, nil
		}
	}
}

// atPresent adds the open runs.
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
