package conformance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// init adds the rows G, which are what programs in Go rely on beyond the rows of the systems.
func init() {
	rows["G1"] = oneRunForAKey
	addGo("G2", undoneInTheOrderOfTheCode)
	addGo("G3", compensationOutlivesADowntime)
	addGo("G4", aPanicInABranchFailsTheRun)
}

// openIn opens an engine over a file until the test ends.
func openIn(t *testing.T, database string, workflows ...pawl.Definition) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), pawl.Config{Database: database, Workflows: workflows})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// oneRunForAKey checks that one idempotency key starts one run, whatever workflow ids its starts name and however many
// partitions there are.
func oneRunForAKey(t *testing.T) {
	for _, partitions := range []int{1, 2, 8} {
		database := fmt.Sprintf("sqlite:%s?partitions=%d", filepath.Join(t.TempDir(), "pawl.db"), partitions)
		var charged atomic.Int32
		pay := pawl.Define("pay", func(ctx pawl.Context, order string) (string, error) {
			return order, pawl.Do(ctx, "charge", func(context.Context) error { charged.Add(1); return nil })
		})
		for life := range 2 {
			e := openIn(t, database, pay)
			for try := range 10 {
				id := fmt.Sprintf("request-%d-%d", life, try)
				r, err := pay.Start(t.Context(), e, id, "order-1", pawl.IdempotencyKey("order-1"))
				if err != nil {
					t.Fatal(err)
				}
				if out, err := r.Result(t.Context()); out != "order-1" || err != nil {
					t.Fatal(out, err)
				}
			}
			_, err := pay.Start(t.Context(), e, "another", "order-2", pawl.IdempotencyKey("order-1"))
			isErr(t, err, pawl.ErrConflict)
			list, err := e.ListRuns(t.Context(), client.Query{})
			if err != nil || len(list) != 1 || charged.Load() != 1 {
				t.Errorf("%d partitions, life %d: %d runs, charged %d times, %v",
					partitions, life, len(list), charged.Load(), err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// undoneInTheOrderOfTheCode checks that what branches have done is undone, all of it, in an order that depends on the
// code alone, also by a body that is called again.
func undoneInTheOrderOfTheCode(t *testing.T) {
	var mu sync.Mutex
	var undone []string
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (nothing, error) {
		var undo pawl.Compensations
		var parts []*pawl.Future[nothing]
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			parts = append(parts, pawl.Go(ctx, name, func(ctx pawl.Context) (nothing, error) {
				undo.Add(ctx, "undo "+name, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					undone = append(undone, name)
					return nil
				})
				return nothing{}, pawl.Do(ctx, name, func(context.Context) error { return nil })
			}))
		}
		_, failed := pawl.All(ctx, parts...)
		if err := errors.Join(failed, pawl.Sleep(ctx, "an hour", time.Hour)); err != nil {
			return nothing{}, err
		}
		return nothing{}, errors.Join(errors.New("it cannot go on"), undo.Run(ctx))
	})
	for range 5 {
		undone = nil
		goEnv(t, func(t *testing.T, e goProgram) {
			r := begin(t, e, w, nothing{})
			e.Skip(time.Minute)
			e.Restart()
			if _, err := result(t, e, r); err == nil || !strings.Contains(err.Error(), "it cannot go on") {
				t.Error(err)
			}
			if got := strings.Join(undone, ""); got != "fedcba" {
				t.Errorf("undone: %s", got)
			}
		}, w)
	}
}

// compensationOutlivesADowntime checks that the time of a compensation stands while nobody carries the run, that one
// function which hangs leaves time for the others, and that what is left is found and can be gone on with.
func compensationOutlivesADowntime(t *testing.T) {
	var undone atomic.Int32
	var hangs atomic.Bool
	hangs.Store(true)
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (nothing, error) {
		var undo pawl.Compensations
		for _, name := range []string{"a", "b", "c"} {
			undo.Add(ctx, name, func(ctx context.Context) error {
				if name == "b" && hangs.Load() {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				if err := idle(ctx, time.Second); err != nil {
					return err
				}
				undone.Add(1)
				return nil
			})
		}
		err := pawl.Sleep(ctx, "sleep", forEver)
		return nothing{}, errors.Join(err, undo.Run(ctx))
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		r := begin(t, e, w, nothing{})
		e.Skip(time.Second)
		operate(t, e, pawl.Operation{Op: client.OpCancel})
		e.Skip(10 * time.Second)
		env, ok := e.(embedded)
		if ok {
			if err := env.Close(); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Hour)
			env.Reopen()
		}
		if _, err := result(t, e, r); !errors.Is(err, pawl.ErrCancelled) || undone.Load() != 2 {
			t.Errorf("undone: %d, %v", undone.Load(), err)
		}
		unfinished := client.Query{Labels: map[string]string{"pawl.compensation": "unfinished"}}
		found, err := goClient(t, e).ListRuns(t.Context(), unfinished)
		if err != nil || len(found) != 1 || found[0].ID != r.ID {
			t.Errorf("unfinished: %+v, %v", found, err)
		}
		hangs.Store(false)
		if err := goClient(t, e).Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		if _, err := result(t, e, r); !errors.Is(err, pawl.ErrCancelled) || undone.Load() != 3 {
			t.Errorf("in the end undone: %d, %v", undone.Load(), err)
		}
	}, w)
}

// aPanicInABranchFailsTheRun checks that a panic in a branch fails the run, although nobody waits for the branch.
func aPanicInABranchFailsTheRun(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ nothing) (nothing, error) {
		//pawlvet:ignore nobody waits for it here
		pawl.Go(ctx, "side", func(pawl.Context) (nothing, error) { panic("in a branch") })
		return nothing{}, pawl.Sleep(ctx, "sleep", time.Second)
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		r := begin(t, e, w, nothing{})
		if _, err := result(t, e, r); err == nil || !strings.Contains(err.Error(), "in a branch") {
			t.Errorf("the run ended with %v", err)
		}
		e.WantPhase(r.ID, client.PhaseFailed)
	}, w)
}
