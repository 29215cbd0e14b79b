package pawltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/service"
)

// Replay fails the test if the workflow's code makes other decisions than those that the history records. The history
// is what [pawl.Engine.History] returned or the command pawl run history printed, perhaps long ago: keep it in a file
// next to the code. A server gives the same at /api/v1/runs/{run}/history. No step's function runs.
func Replay(t testing.TB, w pawl.Definition, history []byte) {
	checkGiven(t != nil)
	t.Helper()
	ReplayWith(t, pawl.Config{}, w, history)
}

// ReplayWith works as Replay, with a configuration: the program's Codec, if it is not [pawl.JSON], and its TaskTimeout.
func ReplayWith(t testing.TB, cfg pawl.Config, w pawl.Definition, history []byte) {
	checkGiven(t != nil)
	t.Helper()
	if err := pawl.Replay(t.Context(), cfg, w, history); err != nil {
		t.Error(err)
	}
}

// ReplayDatabase replays the runs of a database, for example those of production, with the workflows of the
// configuration. The test fails for each run that their code no longer fits. It also fails for an open run whose
// workflow the configuration does not have, since that run could not go on either. Of the configuration it takes
// Database or Journal, Workflows, Codec and TaskTimeout: pass the program's own.
//
// The database is only read, while its program may be working with it. The query selects the runs. Without a Limit
// these are all; usually its Phases are those of open runs. Runs of flow files are left out: they keep the text that
// they started with. ReplayDatabase returns how many runs it has replayed.
func ReplayDatabase(t testing.TB, cfg pawl.Config, q client.Query) (replayed int) {
	checkGiven(t != nil)
	t.Helper()
	j := cfg.Journal
	if j == nil {
		opened, err := journal.OpenReadOnly(t.Context(), cfg.Database)
		if err != nil {
			t.Fatalf("pawltest: the runs of the database cannot be replayed: %v", err)
		}
		defer func() { _ = opened.Close() }()
		j = opened
	}
	return replayAll(t, cfg, service.NewFile(j, readable(j), time.Now), "the database", q)
}

// ReplayServer works as ReplayDatabase for runs that are read from a server, such as that of the command pawl dev, by
// its address: http://127.0.0.1:7295. Of the configuration it takes Workflows, Codec and TaskTimeout.
func ReplayServer(t testing.TB, cfg pawl.Config, address string, q client.Query) (replayed int) {
	checkGiven(t != nil)
	t.Helper()
	c, err := httpapi.New(address)
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	defer c.Close()
	return replayAll(t, cfg, c, address, q)
}

// replayAll replays the runs that a query selects, and returns how many these were.
func replayAll(t testing.TB, cfg pawl.Config, runs api.Reader, of string, q client.Query) int {
	t.Helper()
	r := &replaying{t: t, cfg: cfg, runs: runs}
	if err := r.all(t.Context(), q); err != nil {
		t.Fatalf("pawltest: the runs of %s cannot be replayed: %v", of, err)
	}
	t.Logf("%d runs were replayed", r.replayed)
	return r.replayed
}

// readable returns what makes a stored definition fit for listing its runs and reading their histories.
func readable(j journal.Journal) service.Read {
	return func(d journal.Definition) (*service.Prepared, error) {
		if shown := kind.TraitsOf(d.Kind).Shown; shown != nil {
			return &service.Prepared{Definition: shown}, nil
		}
		for _, p := range kind.Plugins() {
			if k := p.Kinds(j, nil)[d.Kind]; k.Compile != nil {
				def, err := k.Compile(d)
				return &service.Prepared{Definition: def}, err
			}
		}
		return nil, fmt.Errorf("workflow %q is a flow document, and this test does not link what reads them: "+
			`import _ "github.com/pawl-dev/pawl/pawlflow"`, d.Name)
	}
}

// replaying is the replay of many runs.
type replaying struct {
	t        testing.TB
	cfg      pawl.Config
	runs     api.Reader
	replayed int
}

// all replays the runs that a query selects.
func (r *replaying) all(ctx context.Context, q client.Query) error {
	r.t.Helper()
	if q.After != "" {
		return errors.New("Query.After is for lists: bound the runs by Limit or by the time of their creation")
	}
	query := api.Query{
		Workflow: q.Workflow, WorkflowID: q.WorkflowID, Labels: q.Labels, Stuck: q.Stuck, Limit: pageLength,
	}
	for _, phase := range q.Phases {
		query.Phases = append(query.Phases, api.RunPhase(phase))
	}
	if !q.CreatedFrom.IsZero() {
		query.CreatedFrom = api.At(q.CreatedFrom)
	}
	if !q.CreatedBefore.IsZero() {
		query.CreatedBefore = api.At(q.CreatedBefore)
	}
	for seen := 0; ; {
		page, err := r.runs.Runs(ctx, query)
		if err != nil {
			return err
		}
		for _, run := range page.Runs {
			if q.Limit > 0 && seen == q.Limit {
				return nil
			}
			seen++
			if err := r.one(ctx, run); err != nil {
				return err
			}
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			return nil
		}
	}
}

// pageLength is how many runs are listed at once.
const pageLength = 200

// one replays a run, if a function decides what it does.
func (r *replaying) one(ctx context.Context, run api.RunSummary) error {
	r.t.Helper()
	d, err := r.runs.Definition(ctx, run.Definition)
	if err != nil {
		return err
	}
	if !kind.TraitsOf(d.Kind).Body {
		return nil
	}
	w := r.workflow(run.Workflow)
	if w == nil {
		if !run.Phase.Closed() {
			r.t.Errorf("run %s is %s, and its workflow %q is not in the configuration's Workflows", title(run),
				run.Phase, run.Workflow)
		}
		return nil
	}
	history, err := r.runs.History(ctx, run.Run)
	if err != nil {
		return err
	}
	r.replayed++
	if err := pawl.Replay(ctx, r.cfg, w, history); err != nil {
		r.t.Errorf("run %s is %s and does not fit the code:\n%v\nIts history: pawl run history %s", title(run),
			run.Phase, err, run.Run)
	}
	return nil
}

func (r *replaying) workflow(name string) pawl.Definition {
	for _, w := range r.cfg.Workflows {
		if w.Name() == name {
			return w
		}
	}
	return nil
}

// title names a run as people know it.
func title(run api.RunSummary) string {
	if run.WorkflowID == "" || run.WorkflowID == run.Run {
		return run.Run
	}
	return run.WorkflowID + " (" + run.Run + ")"
}
