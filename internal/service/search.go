package service

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Queries that no index answers look at run by run. These bound how many runs one page looks at, so that it comes soon;
// the next page goes on there.
const (
	mostEstimated = 2000 // whose end is estimated
	mostOpened    = 200  // whose history is read
	leastLooked   = 50   // the runs before the time counts, so that a small database is searched whole
	mostTime      = 5 * time.Millisecond
)

// search is one call of Runs.
type search struct {
	*reads
	api.Query
	journal journal.Query
	looked  int // runs that were looked at one by one
	began   core.Time
	stuck   map[core.RunID]error
}

// newSearch checks a query.
func (r *reads) newSearch(ctx context.Context, q api.Query) (s *search, err error) {
	asked := q // the cursor belongs to the original query: an age in its text is another instant each time
	if q, err = q.Read(api.Time(r.now())); err != nil {
		return nil, err
	}
	s = &search{reads: r, Query: q, journal: journal.Query{
		Workflow: q.Workflow, WorkflowID: q.WorkflowID, Limit: q.Limit, Stuck: q.Stuck, Top: q.Top,
		CreatedFrom: core.Time(q.CreatedFrom), CreatedBefore: core.Time(q.CreatedBefore), Retrying: q.Retrying,
		ByDeadline: q.ByDeadline(),
	}}
	to := &s.journal
	if to.Labels, err = core.MakeLabels(q.Labels); err != nil {
		return nil, invalid(err, "list: %v", err)
	}
	if to.Limit <= 0 {
		to.Limit = journal.DefaultLimit
	}
	for _, p := range q.Phases {
		var phase core.RunPhase
		if err := phase.UnmarshalText([]byte(p)); err != nil {
			return nil, &api.Error{Code: api.CodeInvalid, Message: "list: phase: " + err.Error(), Err: err}
		}
		to.Phases = append(to.Phases, phase)
	}
	if q.Resting && len(to.Phases) == 0 {
		to.Phases = []core.RunPhase{core.RunPending, core.RunRunning, core.RunWaiting, core.RunPaused}
	}
	for path := range q.Input {
		if path == "" || slices.Contains(strings.Split(path, "."), "") {
			return nil, invalid(nil, "list: %q is not the path of a value in an input; write it as customer.id", path)
		}
	}
	if q.DeadlineWithin > 0 {
		to.DeadlineBefore = r.now().Add(q.DeadlineWithin.Std()) + 1
	}
	if q.Parent != "" {
		if to.Parent, err = r.find(ctx, q.Parent); err != nil {
			return nil, err
		}
	}
	if s.stuck, err = r.stuck(ctx); err != nil {
		return nil, err
	}
	if q.Stuck {
		to.Bodies = map[core.RunID]bool{}
		for id := range s.stuck {
			to.Bodies[id] = true
		}
	}
	if q.After != "" && q.Cursor == "" {
		return s, s.goOnAfter(ctx)
	}
	to.After, to.AfterDeadline, err = readCursor(&asked)
	return s, err
}

// stuck returns why runs cannot go on until somebody acts: their code cannot, or no worker takes their tasks.
func (r *reads) stuck(ctx context.Context) (map[core.RunID]error, error) {
	all := map[core.RunID]error{}
	if r.waits != nil {
		waits, err := r.waits(ctx)
		if err != nil {
			return nil, wrap(err)
		}
		maps.Copy(all, waits)
	}
	if r.problems != nil {
		maps.Copy(all, r.problems())
	}
	return all, nil
}

// goOnAfter makes the search continue after a run that the caller names.
func (s *search) goOnAfter(ctx context.Context) (err error) {
	if s.journal.After, err = core.ParseRunID(s.After); err != nil {
		return invalid(err, "list: after: %v", err)
	}
	if !s.journal.ByDeadline {
		return nil
	}
	last, err := s.reads.Run(ctx, s.After)
	if err == nil {
		s.journal.AfterDeadline = core.Time(last.Deadline)
	}
	return err
}

func (r *reads) Runs(ctx context.Context, q api.Query) (api.Page, error) {
	s, err := r.newSearch(ctx, q)
	if err != nil {
		return api.Page{}, err
	}
	s.began = r.now()
	out := api.Page{Runs: []api.RunSummary{}}
	limit := s.journal.Limit
	for {
		page, err := r.src.List(ctx, s.journal)
		if err != nil {
			return api.Page{}, wrap(err)
		}
		found, err := s.look(ctx, page.Runs)
		if err != nil {
			return api.Page{}, err
		}
		for i := range page.Runs {
			row := &page.Runs[i]
			if s.opens() || s.WillMiss || s.looksForWords() {
				s.looked++
			}
			if found[i].kept {
				out.Runs = append(out.Runs, found[i].summary)
			}
			s.journal.GoOn(row)
			if more := page.More || i < len(page.Runs)-1; more && (len(out.Runs) == limit || s.enough()) {
				out.Next = cursor(&q, row)
				return out, nil
			}
		}
		if !page.More || len(page.Runs) == 0 {
			return out, nil
		}
	}
}

// lookAtOnce is how many runs are looked at at the same time. Each of them waits for its partition, which answers many
// in one round.
const lookAtOnce = 16

// looked is a run that the journal has found.
type looked struct {
	summary api.RunSummary
	kept    bool // the query asks for it
}

// look looks at the runs that the journal has found.
func (s *search) look(ctx context.Context, rows []journal.RunRow) ([]looked, error) {
	found := make([]looked, len(rows))
	one := func(i int) (err error) {
		to := &found[i]
		to.summary = summaryOf(&rows[i])
		if problem := s.stuck[rows[i].ID]; problem != nil && !rows[i].Phase.Closed() {
			to.summary.Problem = problem.Error()
		}
		if id := rows[i].ID; s.rests != nil && !rows[i].Phase.Closed() {
			to.summary.Resting = s.rests(ctx, id, func() core.RunID { return s.topOf(ctx, id) })
		}
		to.kept, err = s.keeps(ctx, &rows[i], &to.summary)
		return err
	}
	if !s.opens() {
		for i := range rows {
			if err := one(i); err != nil {
				return nil, err
			}
		}
		return found, nil
	}
	var group errgroup.Group
	group.SetLimit(lookAtOnce)
	for i := range rows {
		group.Go(func() error { return one(i) })
	}
	return found, group.Wait()
}

// opens reports whether histories have to be read.
func (s *search) opens() bool { return len(s.Input) > 0 }

// looksForWords reports whether the rows have to be searched for words.
func (s *search) looksForWords() bool { return len(s.Words) > 0 || s.Error != "" }

// enough reports whether so many runs were read that the page has to be returned as it is.
func (s *search) enough() bool {
	return s.opens() && s.looked >= mostOpened || s.looked >= mostEstimated ||
		s.looked >= leastLooked && s.now().Sub(s.began) > mostTime
}

// keeps reports whether a run that the journal has found is one that the query asks for.
func (s *search) keeps(ctx context.Context, row *journal.RunRow, to *api.RunSummary) (bool, error) {
	if s.Resting && !to.Resting || !s.HasWords(to) {
		return false, nil
	}
	if late := !row.Phase.Closed() && row.Deadline != 0; late || s.WillMiss {
		expected, err := s.expectedEnd(ctx, row)
		if err != nil {
			return false, err
		}
		late = late && expected >= row.Deadline
		if late {
			to.ExpectedEnd = api.Time(expected)
		}
		if s.WillMiss && !late {
			return false, nil
		}
	}
	if !s.opens() {
		return true, nil
	}
	return s.hasInput(ctx, row.ID)
}

// expectedEnd returns when a run will end at the pace of its workflow; the run may end later; 0 if that is unknown.
// A run that sleeps or waits does nothing on its own until its wake time. If that is its deadline, it will miss it.
func (s *search) expectedEnd(ctx context.Context, row *journal.RunRow) (core.Time, error) {
	var expected core.Time
	if row.Wake > journal.WakeSetAside {
		expected = row.Wake
	}
	usual, err := s.paces.of(ctx, s.src, row.Workflow, s.now())
	if usual > 0 {
		expected = max(expected, row.CreatedAt.Add(usual))
	}
	return expected, err
}

// hasInput reports whether a run's input has the values that the query asks for.
func (s *search) hasInput(ctx context.Context, id core.RunID) (bool, error) {
	entries, err := s.src.Entries(ctx, id, 0)
	if absent(err) {
		return false, nil // it was removed meanwhile
	}
	if err != nil {
		return false, wrap(err)
	}
	var created core.RunCreated
	for _, rec := range entries[0].Records {
		if c, ok := rec.(core.RunCreated); ok {
			created = c
		}
	}
	dec := json.NewDecoder(bytes.NewReader(created.Input))
	dec.UseNumber()
	var input any
	if err := dec.Decode(&input); err != nil {
		return false, nil //nolint:nilerr // a codec has encoded it: it has no such value
	}
	for path, want := range s.Input {
		if !hasValue(input, strings.Split(path, "."), want) {
			return false, nil
		}
	}
	return true, nil
}

// hasValue reports whether a value has another one at a path: texts are compared directly, numbers, true, false and
// null in their JSON form.
func hasValue(v any, path []string, want string) bool {
	for _, key := range path {
		object, _ := v.(map[string]any)
		var ok bool
		if v, ok = object[key]; !ok {
			return false
		}
	}
	switch v := v.(type) {
	case string:
		return v == want
	case map[string]any, []any:
		return false
	default:
		text, err := json.Marshal(v)
		return err == nil && string(text) == want
	}
}

// pace is how long the runs of a workflow take.
type pace struct {
	usual time.Duration // half of the last successful ones took less; 0 if there are none
	until core.Time     // when it is computed again
}

// paces knows how long the runs of workflows take.
type paces struct {
	mu    sync.Mutex
	known map[string]pace
}

const (
	paceRuns   = 100 // how many runs determine the pace of a workflow
	paceAge    = time.Minute
	mostPaces  = 10_000
	leastPaces = 5 // fewer runs tell nothing
)

// of returns how long the runs of a workflow usually take, or 0 if it is not known.
func (p *paces) of(ctx context.Context, src source, workflow string, now core.Time) (time.Duration, error) {
	p.mu.Lock()
	known, ok := p.known[workflow]
	p.mu.Unlock()
	if ok && now < known.until {
		return known.usual, nil
	}
	page, err := src.List(ctx, journal.Query{
		Workflow: workflow, Phases: []core.RunPhase{core.RunSucceeded}, Limit: paceRuns,
	})
	if err != nil {
		return 0, wrap(err)
	}
	took := make([]time.Duration, len(page.Runs))
	for i := range page.Runs {
		took[i] = page.Runs[i].EndedAt.Sub(page.Runs[i].CreatedAt)
	}
	slices.Sort(took)
	known = pace{until: now.Add(paceAge)}
	if len(took) >= leastPaces {
		known.usual = took[len(took)/2]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= mostPaces {
		p.known = map[string]pace{}
	}
	p.known[workflow] = known
	return known.usual, nil
}
