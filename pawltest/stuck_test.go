package pawltest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestResultOfWhatCannotGoOn checks that a test that waits for a run with a stuck body ends. The body may also be that
// of a later run of the chain, or of a child. Tests that wait for other runs go on.
func TestResultOfWhatCannotGoOn(t *testing.T) {
	var changes int
	changing := pawl.Define("changing", func(ctx pawl.Context, rounds int) (int, error) {
		if rounds > 0 {
			return 0, pawl.ContinueAsNew(ctx, rounds-1)
		}
		changes++
		if changes > 1 {
			return 1, pawl.Do(ctx, "other", func(context.Context) error { return nil })
		}
		return 1, pawl.Sleep(ctx, "rest", "1h")
	})
	blocking := pawl.Define("blocking", func(ctx pawl.Context, _ int) (int, error) {
		<-ctx.Done() //pawlvet:ignore it blocks until the run ends
		return 0, ctx.Err()
	})
	parent := pawl.Define("parent", func(ctx pawl.Context, n int) (int,
		error,
	) {
		return pawl.Child(ctx, "child", changing, n)
	})
	patient := pawl.Define("patient", func(ctx pawl.Context, n int) (int, error) {
		return n,
			pawl.Sleep(ctx, "rest", "30d")
	})
	var changed *pawl.ChangedError
	var late *pawl.TaskTimeoutError
	for name, c := range map[string]struct {
		w    *pawl.Workflow[int, int]
		in   int
		want any
	}{
		"the body itself":        {changing, 0, &changed},
		"a later run":            {changing, 3, &changed},
		"a later run of a child": {parent, 2, &changed},
		"a body that blocks":     {blocking, 0, &late},
	} {
		changes = 0
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			other, err := patient.Start(t.Context(), e, "patient", 7)
			if err != nil {
				t.Fatal(err)
			}
			run, err := c.w.Start(t.Context(), e, "", c.in)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err = run.Result(t.Context()); !errors.As(err, c.want) {
				t.Errorf("%s: got %v", name, err)
			}
			if d := time.Since(began); d > 2*time.Hour {
				t.Errorf("%s: it took %s", name, d)
			}
			if err := e.Operate(t.Context(), run.ID, pawl.Operation{Op: client.OpTerminate}); err != nil {
				t.Error(err)
			}
			if n, err := other.Result(t.Context()); n != 7 || err != nil {
				t.Errorf("%s: another run ended with %d, %v", name, n, err)
			}
		}, c.w, changing, patient)
	}
}
