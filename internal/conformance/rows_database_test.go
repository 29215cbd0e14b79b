package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

func init() { rows["D1"] = wentBack }

// wentBack checks row D1 on an engine: a database that goes back while it is in use, and one that is opened again. The
// servers of a failover, and poolers between, are in the tests of the PostgreSQL journal and of the command.
func wentBack(t *testing.T) {
	t.Run("in use", wentBackInUse)
	t.Run("opened again", wentBackOpened)
}

// wentBackInUse checks that nothing is acknowledged while the database lacks what was acknowledged before, and that all
// is there when it is the right one again.
func wentBackInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		count := map[string]int{}
		work := pawl.Define("work", func(ctx pawl.Context, name string) (string, error) {
			return pawl.Step(ctx, "work", func(context.Context) (string, error) {
				count[name]++
				return name, nil
			})
		})
		j := memory.New()
		open := func() *pawl.Engine {
			e, err := pawl.Open(ctx, pawl.Config{Journal: j, Workflows: []pawl.Definition{work}})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := open()
		done := func(id string) {
			t.Helper()
			if out, err := pawl.RunOf[string](e, id).Result(ctx); err != nil || out != id {
				t.Errorf("%s: %q, %v", id, out, err)
			}
		}
		start := func(id string) error { _, err := work.Start(ctx, e, id, id); return err }
		acknowledged := func(id string) {
			t.Helper()
			if err := start(id); err != nil {
				t.Fatal(err)
			}
			done(id)
		}
		acknowledged("first")
		past := j.Backup()
		acknowledged("second")
		now := j.Backup()

		j.Restore(past)
		err := start("third")
		const says = "this database went back (partition 0:"
		if !errors.Is(err, engine.ErrStalled) || !strings.Contains(err.Error(), says) {
			t.Fatalf("a start in a database that went back: %v", err)
		}
		j.Restore(now)
		for range 100 { // the engine looks again from time to time
			if err = start("third"); err == nil {
				break
			}
			<-time.After(time.Second) // virtual
		}
		done("third")
		done("second")

		// An operator accepts what was restored: that is given up, and what was acknowledged before stays.
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		j.Restore(past)
		j = j.Reopen()
		if _, err := j.Accept(ctx); err != nil {
			t.Fatal(err)
		}
		e = open()
		done("first")
		if _, err := e.DescribeRun(ctx, "second"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a run that was given up: %v", err)
		}
		acknowledged("fourth")
		for name, n := range count {
			if n != 1 {
				t.Errorf("the step of %s began %d times", name, n)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// wentBackOpened checks a file that was replaced by an older copy of itself: who has seen more of it opens it only
// after an acceptance, which another copy of the same past does not have.
func wentBackOpened(t *testing.T) {
	dir := t.TempDir()
	path, seen := filepath.Join(dir, "pawl.db"), filepath.Join(dir, "seen")
	work := pawl.Define("work", func(pawl.Context, int) (int, error) { return 1, nil })
	opened := func(also func(*sqlite.Journal) error) error {
		j, err := sqlite.Open(path, sqlite.Options{Seen: seen})
		if err != nil {
			return err
		}
		return errors.Join(also(j), j.Close())
	}
	runs := func(id string) func(*sqlite.Journal) error {
		return func(j *sqlite.Journal) error {
			e, err := pawl.Open(t.Context(), pawl.Config{Journal: j, Workflows: []pawl.Definition{work}})
			if err != nil {
				return err
			}
			r, err := work.Start(t.Context(), e, id, 1)
			if err == nil {
				_, err = r.Result(t.Context())
			}
			return errors.Join(err, e.Close())
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(opened(runs("first")))
	past, err := os.ReadFile(path)
	must(err)
	must(opened(runs("second")))
	must(os.WriteFile(path, past, 0o600))
	const says = "this database went back (partition 0: batch"
	if err := opened(runs("third")); !errors.Is(err, journal.ErrBehind) || !strings.Contains(err.Error(), says) {
		t.Fatalf("an older copy: %v", err)
	}

	// Whoever has not seen it accepts it; from then on the copy of the same past is older, too.
	j, err := sqlite.Open(path, sqlite.Options{})
	must(err)
	_, err = j.Accept(t.Context())
	must(errors.Join(err, j.Close()))
	must(opened(runs("third")))
	must(os.WriteFile(path, past, 0o600))
	err = opened(runs("fourth"))
	if !errors.Is(err, journal.ErrBehind) || !strings.Contains(err.Error(), "(generation 0, 1 was seen)") {
		t.Errorf("another copy after the acceptance: %v", err)
	}
}
