package sqlite

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nightly"
)

var million = flag.Int("million", 20_000, "how many runs TestSearchOfMany makes")

// searches returns the queries that must stay short, by name.
func searches(now core.Time) map[string]journal.Query {
	open := []core.RunPhase{core.RunPending, core.RunRunning, core.RunWaiting, core.RunPaused}
	ended := []core.RunPhase{core.RunFailed, core.RunTimedOut}
	return map[string]journal.Query{
		"all":                    {},
		"top":                    {Top: true},
		"workflow":               {Workflow: "order"},
		"a rare workflow":        {Workflow: "rare"},
		"no workflow":            {Workflow: "none"},
		"succeeded":              {Phases: []core.RunPhase{core.RunSucceeded}},
		"open":                   {Phases: open},
		"bad ends":               {Phases: ended},
		"workflow, open":         {Workflow: "order", Phases: open},
		"workflow, bad ends":     {Workflow: "rare", Phases: ended},
		"label":                  {Labels: "customer=23"},
		"two labels":             {Labels: "customer=23\nregion=us"},
		"last minute":            {CreatedFrom: now.Add(-time.Minute)},
		"an hour, rare workflow": {Workflow: "rare", CreatedFrom: now.Add(-time.Hour)},
		"long ago":               {CreatedBefore: now.Add(-999 * time.Minute)},
		"deadline":               {ByDeadline: true, DeadlineBefore: now.Add(10 * time.Minute)},
		"deadline, workflow":     {ByDeadline: true, DeadlineBefore: now.Add(time.Minute), Workflow: "order"},
		"radar":                  {ByDeadline: true},
		"retrying":               {Retrying: true},
		"retrying, workflow":     {Retrying: true, Workflow: "order"},
		"children":               {Parent: manyID(now, 12)},
		"workflow id":            {WorkflowID: "id-77"},
		"stuck":                  {Stuck: true},
	}
}

// manyID returns the id of the nth of many runs.
func manyID(now core.Time, n int) (id core.RunID) {
	return core.NewRunID(now.Add(-time.Duration(*million-n)*60*time.Millisecond), 0, 0, uint64(n))
}

// fillMany writes many runs: nine of ten have succeeded, and of the others each has something to be found by.
func fillMany(t *testing.T, j *Journal, now core.Time, count int) {
	t.Helper()
	lease, err := j.Acquire(t.Context(), 0, "many")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < count; {
		v := &journal.View{}
		for range 1000 {
			created := now.Add(-time.Duration(count-n) * 60 * time.Millisecond)
			r := journal.RunRow{
				ID: manyID(now, n), Workflow: "order", Phase: core.RunSucceeded, CreatedAt: created,
				EndedAt: created.Add(time.Second), Definition: core.DefinitionID{1},
			}
			if n%50_000 == 7 {
				r.Workflow = "rare"
			}
			if n%20 == 3 {
				r.Labels = core.Labels(fmt.Sprintf("customer=%d\nregion=%s", n%1000, []string{"eu", "us"}[n/20%2]))
			}
			switch n % 10 {
			case 1:
				r.Parent, r.WorkflowID = manyID(now, 12+n/10_000), fmt.Sprintf("id-%d", n)
			case 2:
				r.Phase = core.RunFailed
			case 3:
				r.Phase, r.EndedAt, r.Deadline = core.RunWaiting, 0, now.Add(time.Duration(n)*time.Second)
				if n%30 == 3 {
					s := journal.StepRow{Run: r.ID, Name: "s", Phase: core.StepBackingOff, Attempt: 1}
					v.Steps = append(v.Steps, s)
				}
			default:
			}
			v.Runs = append(v.Runs, r)
			n++
		}
		lease.Last++
		v.Through = lease.Last
		if err := j.Append(t.Context(), &journal.Batch{Epoch: lease.Epoch, Seq: lease.Last, View: v}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLateRuns checks that a span of time has also the runs that were created long after their ids were made, each
// once, page by page.
func TestLateRuns(t *testing.T) {
	j := opened(t, filepath.Join(t.TempDir(), "pawl.db"))
	now := core.Time(1_780_000_000_000_000)
	fillMany(t, j, now, 5000)
	lease, err := j.Renew(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	v := &journal.View{Through: lease.Last + 1}
	for n := range 3 { // made a day before, or a month before
		id := core.NewRunID(now.Add(-time.Duration(1+29*(n%2))*24*time.Hour), 0, 0, uint64(n))
		created := now.Add(-time.Duration(n) * time.Second)
		v.Runs = append(v.Runs, journal.RunRow{ID: id, Workflow: "late", CreatedAt: created})
	}
	if err := j.Append(t.Context(), &journal.Batch{Epoch: 1, Seq: lease.Last + 1, View: v}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []journal.Query{
		{CreatedFrom: now.Add(-time.Minute)},
		{CreatedFrom: now.Add(-time.Minute), Phases: []core.RunPhase{core.RunPending, core.RunFailed}},
		{CreatedFrom: now.Add(-time.Minute), CreatedBefore: now.Add(time.Minute), Workflow: "late"},
	} {
		seen, late := map[core.RunID]bool{}, 0
		for q.Limit = 2; ; {
			page, err := j.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Runs {
				if seen[r.ID] || r.CreatedAt < q.CreatedFrom {
					t.Errorf("%+v: run %s, created at %s, was seen before: %v", q, r.ID, r.CreatedAt, seen[r.ID])
				}
				if seen[r.ID] = true; r.Workflow == "late" {
					late++
				}
			}
			if !page.More {
				break
			}
			q.After = page.Runs[len(page.Runs)-1].ID
		}
		if late != 3 || q.Workflow == "" && len(seen) < 50 {
			t.Errorf("%+v finds %d runs, %d of them late", q, len(seen), late)
		}
	}
}

// TestSearchOfMany checks that every kind of search finds its rows by an index, in their order, so that reading stops
// with the page. With -million=1000000 it tells how long first pages take.
func TestSearchOfMany(t *testing.T) {
	j := opened(t, filepath.Join(t.TempDir(), "pawl.db"))
	now := core.Time(1_780_000_000_000_000)
	fillMany(t, j, now, *million)
	for name, q := range searches(now) {
		t.Run(name, func(t *testing.T) {
			wantPlan(t, j, q)
			took := make([]time.Duration, nightly.Few(10, 200))
			rows := 0
			for i := range took {
				from := time.Now()
				page, err := j.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				took[i], rows = time.Since(from), len(page.Runs)
			}
			slices.Sort(took)
			t.Logf("%-24s %3d rows, p50 %v, p99 %v", name, rows, took[len(took)/2], took[len(took)*99/100])
		})
	}
}

// wantPlan checks that SQLite reads the rows of a query in their order, and scans nothing.
func wantPlan(t *testing.T, j *Journal, q journal.Query) {
	t.Helper()
	err := j.read(t.Context(), func(c *conn) error {
		ways, err := waysOf(c, &q)
		if err != nil {
			return err
		}
		for i := range ways {
			var b strings.Builder
			b.WriteString("EXPLAIN QUERY PLAN SELECT r.id FROM " + ways[i].from + runNames + " WHERE 1")
			if ways[i].where != "" {
				b.WriteString(" AND " + ways[i].where)
			}
			listWhere(&b, &q, &ways[i], nil)
			var plan []string
			query := strings.ReplaceAll(b.String(), "?", "5") + " ORDER BY " + ways[i].order
			err := sqlitex.ExecuteTransient(c.Conn, query, &sqlitex.ExecOptions{
				ResultFunc: func(s *sqlite.Stmt) error { plan = append(plan, s.ColumnText(3)); return nil },
			})
			if err != nil {
				return err
			}
			text := strings.Join(plan, "\n")
			few := strings.Contains(ways[i].from, "runs_late") || q.Stuck // so few that they can be sorted
			scans := strings.Contains(text, "SCAN r") && !ways[i].parts && !strings.Contains(text, "USING INDEX")
			if scans || strings.Contains(text, "TEMP B-TREE") && !few {
				t.Errorf("%s\n%s", b.String(), text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
