package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

// TestEachProcessHasItsOwnSlots checks that each process runs as many local steps at once as it has said, whatever the
// others have room for. What waits for a slot has not begun: its limits do not run.
func TestEachProcessHasItsOwnSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const steps, slots = 10, 2
		var atWork, most atomic.Int64
		w := pawl.Define("w", func(ctx pawl.Context, _ any) (int, error) {
			var all []*pawl.Future[int]
			for i := range steps {
				all = append(all, pawl.Async(ctx, fmt.Sprint("s", i), func(ctx context.Context) (int, error) {
					n := atWork.Add(1)
					defer atWork.Add(-1)
					most.Store(max(most.Load(), n))
					select {
					case <-time.After(time.Minute):
						return pawl.Attempt(ctx).Number, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}, pawl.AttemptTimeout("90s")))
			}
			_, err := pawl.All(ctx, all...)
			return steps, err
		})
		other := pawl.Define("other", func(pawl.Context, any) (int, error) { return 0, nil })
		b := newBed(t)
		small, large := &line{bed: b}, &line{bed: b}
		one := b.serveWith(small, small, pawl.Config{Workflows: []pawl.Definition{w}, Concurrency: slots})
		two := b.serveWith(large, large, pawl.Config{Workflows: []pawl.Definition{other}, Concurrency: 100})
		<-time.After(time.Second)
		from := time.Now()
		r, err := w.Start(t.Context(), b, "", nil)
		ok(t, err)
		n, err := r.Result(t.Context())
		if took := time.Since(from); n != steps || err != nil || took < 5*time.Minute || took > 6*time.Minute {
			t.Errorf("%d, %v, after %s", n, err, took)
		}
		if got := most.Load(); got != slots {
			t.Errorf("%d steps ran at once", got)
		}
		// Those of a run that is cancelled wait no more, and others have their turns.
		first, err := w.Start(t.Context(), b, "", nil)
		ok(t, err)
		<-time.After(time.Second)
		second, err := w.Start(t.Context(), b, "", nil)
		ok(t, err)
		<-time.After(time.Second)
		ok(t, b.Operate(t.Context(), first.ID, pawl.Operation{Op: client.OpCancel}))
		from = time.Now()
		n, err = second.Result(t.Context())
		if took := time.Since(from); n != steps || err != nil || took < 5*time.Minute || took > 6*time.Minute {
			t.Errorf("%d, %v, after %s", n, err, took)
		}
		if _, err := first.Result(t.Context()); !errors.Is(err, pawl.ErrCancelled) {
			t.Error(err)
		}
		if got := most.Load(); got != slots {
			t.Errorf("%d steps ran at once", got)
		}
		one.end()
		two.end()
		b.close()
	})
}

// TestEachProcessHasItsOwnSlotsForHooks checks that hooks have slots of their own, of which each process has its own,
// too.
func TestEachProcessHasItsOwnSlotsForHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var atWork, most atomic.Int64
		w := pawl.Define("w", func(pawl.Context, any) (int, error) { return 1, nil },
			pawl.OnExit(func(context.Context, int, error) error {
				n := atWork.Add(1)
				defer atWork.Add(-1)
				most.Store(max(most.Load(), n))
				<-time.After(10 * time.Second)
				return nil
			}))
		other := pawl.Define("other", func(pawl.Context, any) (int, error) { return 0, nil })
		b := newBed(t)
		small, large := &line{bed: b}, &line{bed: b}
		one := b.serveWith(small, small, pawl.Config{Workflows: []pawl.Definition{w}, Concurrency: 2})
		two := b.serveWith(large, large, pawl.Config{Workflows: []pawl.Definition{other}, Concurrency: 100})
		<-time.After(time.Second)
		from := time.Now()
		var all []pawl.Run[int]
		for range 6 {
			r, err := w.Start(t.Context(), b, "", nil)
			ok(t, err)
			all = append(all, r)
		}
		for _, r := range all {
			_, err := r.Result(t.Context())
			ok(t, err)
		}
		if took := time.Since(from); most.Load() != 2 || took < 30*time.Second || took > 35*time.Second {
			t.Errorf("%d hooks at once, all after %s", most.Load(), took)
		}
		one.end()
		two.end()
		b.close()
	})
}
