package conformance

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	_ "github.com/pawl-dev/pawl/internal/journal/sqlite" // the database of these rows
	"github.com/pawl-dev/pawl/internal/nightly"
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

// fewGoRows are the rows that eachGoRow runs under -short: compensations, failures in branches, and workflows of other
// systems.
var fewGoRows = []string{"G2", "G3", "G4", "T1", "Z10"}

// eachGoRow runs these tests, as the rows of the variables below. Under -short it runs few, because TestConformance has
// run all of them.
func eachGoRow(t *testing.T) {
	for _, id := range slices.Sorted(maps.Keys(goRows)) {
		if nightly.Few(0, 1) == 0 && !slices.Contains(fewGoRows, id) {
			continue
		}
		t.Run(id, func(t *testing.T) {
			t.Parallel() // the variables are set back when all rows have ended
			for _, test := range goRows[id] {
				test(t)
			}
		})
	}
}

// goDatabase names the database of a test.
var goDatabase = func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "go.db") }

// goProgram is the program whose workflows a row tests.
type goProgram interface {
	pawl.Client
	// Skip lets virtual time pass.
	Skip(d time.Duration)
	// Restart ends everything and starts it again, with other workflows if some are given.
	Restart(workflows ...pawl.Definition)
	// Serve executes the calls of a queue.
	Serve(queue string, slots int, handlers ...pawl.AnyHandler) error

	Step(run, step string) client.StepDescription
	WantPhase(run string, phase client.Phase)
	WantAttempts(run, step string, n int)
	WantDeadline(run, step string, after time.Duration)
	// WantStuck fails the test if the body of a run has not been too long in a function, whose name it says.
	WantStuck(run, in string)
}

// embedded is a program with an engine of its own.
type embedded struct {
	*pawltest.Env
	t *testing.T
}

func (e embedded) WantStuck(run, in string) {
	var late *pawl.TaskTimeoutError
	if err := e.Problem(run); !errors.As(err, &late) || !strings.Contains(late.Stack, in) {
		e.t.Errorf("the problem does not say where: %v", err)
	}
}

// goClient is what the rows work with runs through.
var goClient = func(_ *testing.T, e goProgram) pawl.Client { return e }

// goEnv runs a test in virtual time against a program with a database in goDatabase.
var goEnv = func(t *testing.T, test func(t *testing.T, e goProgram), workflows ...pawl.Definition) {
	t.Helper()
	cfg := pawl.Config{Database: goDatabase(t), Workflows: workflows}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) { test(t, embedded{e, t}) })
}

// begin starts a run under the id "run".
func begin[In, Out any](t *testing.T, e goProgram, w *pawl.Workflow[In, Out], in In) pawl.Run[Out] {
	t.Helper()
	r, err := w.Start(t.Context(), goClient(t, e), "run", in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forEver is how long something waits that nothing ends.
var forEver = 1000 * 24 * time.Hour

// patience is longer than any run of these tests takes.
const patience = 1001 * 24 * time.Hour

// result waits for a run of the current engine. A run that never ends fails the test; otherwise virtual time would go
// on for ever.
func result[Out any](t *testing.T, e goProgram, r pawl.Run[Out]) (Out, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return pawl.RunOf[Out](goClient(t, e), r.ID).Result(ctx)
}

func operate(t *testing.T, e goProgram, op pawl.Operation) {
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
