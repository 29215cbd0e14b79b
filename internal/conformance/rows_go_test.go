package conformance

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/internal/journal/sqlite" // the database of these rows
	"github.com/pawl-dev/pawl/pawltest"
)

type nothing = struct{}

// addGo adds a test with a Go workflow to a row, after the tests that the row has already.
func addGo(id string, test func(t *testing.T)) {
	goRows[id] = append(goRows[id], test)
	before := rows[id]
	rows[id] = func(t *testing.T) {
		if before != nil {
			before(t)
		}
		t.Run("go", test)
	}
}

// goRows are the tests of addGo by row.
var goRows = map[string][]func(t *testing.T){}

// goDatabase names the database of a test.
var goDatabase = func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "go.db") }

// goClient is what the rows work with runs through.
var goClient = func(_ *testing.T, e *pawltest.Env) pawl.Client { return e }

// goEnv runs a test in virtual time against an engine on goDatabase.
func goEnv(t *testing.T, test func(t *testing.T, e *pawltest.Env), workflows ...pawl.Definition) {
	t.Helper()
	cfg := pawl.Config{Database: goDatabase(t), Workflows: workflows}
	pawltest.RunWith(t, cfg, test)
}

// begin starts a run under the id "run".
func begin[In, Out any](t *testing.T, e *pawltest.Env, w *pawl.Workflow[In, Out], in In) pawl.Run[Out] {
	t.Helper()
	r, err := w.Start(t.Context(), goClient(t, e), "run", in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// patience is longer than any run of these tests takes.
const patience = 1001 * 24 * time.Hour

// result waits for a run of the current engine. A run that never ends fails the test; otherwise virtual time would go
// on for ever.
func result[Out any](t *testing.T, e *pawltest.Env, r pawl.Run[Out]) (Out, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return pawl.RunOf[Out](goClient(t, e), r.ID).Result(ctx)
}

func operate(t *testing.T, e *pawltest.Env, op pawl.Operation) {
	t.Helper()
	if err := goClient(t, e).Operate(t.Context(), "run", op); err != nil {
		t.Fatal(err)
	}
}

// idle waits in a step for d, or until the step is told to stop.
func idle(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// took fails the test unless d has passed since start, with a tolerance for commits.
func took(t *testing.T, start time.Time, d time.Duration) {
	t.Helper()
	if got := time.Since(start); got < d || got > d+time.Second {
		t.Errorf("it took %s, want %s", got, d)
	}
}

func isErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}
