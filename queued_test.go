package pawl_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestBodyStaysWhileItsStepIsQueued: many runs share few slots, so that their steps wait for long. Each body is called
// once: it stays, although it waits for longer than other bodies may.
func TestBodyStaysWhileItsStepIsQueued(t *testing.T) {
	var bodies atomic.Int32
	w := pawl.Define("queued", func(ctx pawl.Context, _ none) (none, error) {
		bodies.Add(1)
		for range 2 {
			err := pawl.Do(ctx, "step", func(ctx context.Context) error {
				if err := wait(ctx, time.Second); err != nil || pawl.AttemptNumber(ctx) > 1 {
					return err
				}
				return errors.New("once more")
			}, pawl.Retry("fixed(2, 10ms)"))
			if err != nil {
				return none{}, err
			}
		}
		return none{}, nil
	})
	bubble(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), pawl.Config{
			Journal: memory.New(), Workflows: []pawl.Definition{w}, Concurrency: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		const runs = 20
		var all [runs]pawl.Run[none]
		for i := range all {
			if all[i], err = w.Start(t.Context(), e, "", none{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range all {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := bodies.Load(); n != runs {
			t.Errorf("%d runs called their bodies %d times", runs, n)
		}
	})
}
