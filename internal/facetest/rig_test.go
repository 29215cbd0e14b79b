package facetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestMain runs the tests, or is the program that one of them kills.
func TestMain(m *testing.M) {
	for variable, program := range map[string]func(dir string) error{crashDir: takeOrders, talkDir: talkAndBeat} {
		dir := os.Getenv(variable)
		if dir == "" {
			continue
		}
		if err := program(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

// open opens an engine over the journal, or over one in memory, until the test ends.
func open(t *testing.T, j journal.Journal, workflows ...pawl.Definition) *pawl.Engine {
	t.Helper()
	if j == nil {
		j = memory.New()
	}
	log := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: j, Workflows: workflows, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// testWriter writes lines of a log into the log of a test.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// run starts a run and waits for its result.
func run[In, Out any](t *testing.T, e *pawl.Engine, w *pawl.Workflow[In, Out], in In,
	opts ...pawl.StartOption,
) (Out, error) {
	t.Helper()
	r, err := w.Start(t.Context(), e, "", in, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.Result(t.Context())
}

// none is the input or output of a workflow that has none.
type none = struct{}

// wait waits in a step.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reopened returns the run as the engine of now has it.
func reopened[Out any](e *pawltest.Env, r pawl.Run[Out]) pawl.Run[Out] {
	return pawl.RunOf[Out](e, r.ID)
}

// blockHere blocks until the context is done; its name is looked for in stacks.
//
//go:noinline
func blockHere(ctx context.Context) { <-ctx.Done() }

// ends waits for a run's end and returns the error.
func ends(t *testing.T, e *pawltest.Env, r pawl.Run[string], phase client.Phase, is error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 240*time.Hour)
	defer cancel()
	got, err := r.Result(ctx)
	if !errors.Is(err, is) || got != "" {
		t.Errorf("the run ended with %q, %v, want %v", got, err, is)
	}
	e.WantPhase(r.ID, phase)
	return err
}

// second returns the error of a call that is interesting for nothing else.
func second[T any](_ T, err error) error { return err }

// must ends the test where something fails that it only prepares with.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// started starts a run. id may be empty.
func started[In, Out any](
	t testing.TB, c pawl.Client, w *pawl.Workflow[In, Out], id string, in In, opts ...pawl.StartOption,
) pawl.Run[Out] {
	t.Helper()
	r, err := w.Start(t.Context(), c, id, in, opts...)
	must(t, err)
	return r
}
