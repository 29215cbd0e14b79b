package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/memory"
)

// TestLateEnds: where the disk is slow, an attempt may succeed after its limit has fired and before its worker is told. The body
// has gone on by then with the result that is not taken: what it decided on that is void, also what it decides later, and what
// ended beside it has ended.
func TestLateEnds(t *testing.T) {
	const limit = time.Minute
	for name, c := range map[string]struct{ beside, computes time.Duration }{
		"in one commit":   {time.Millisecond, 1500 * time.Microsecond},
		"in two":          {time.Millisecond, 0},
		"long after that": {200 * time.Millisecond, 0},
	} {
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			late := pawl.Async(ctx, "late", func(ctx context.Context) (int, error) {
				if pawl.AttemptNumber(ctx) == 1 {
					<-time.After(limit - 1500*time.Millisecond) // it began two seconds after what its limit counts from
				}
				return pawl.AttemptNumber(ctx), nil
			}, pawl.AttemptTimeout(limit), pawl.Retry("fixed(2, 1h)"))
			beside := pawl.Async(ctx, "beside", func(ctx context.Context) (none, error) {
				return none{}, wait(ctx, limit-1500*time.Millisecond+c.beside)
			})
			n, err := late.Get(ctx)
			if err != nil {
				return "", err
			}
			<-time.After(c.computes)
			then := func(name string) *pawl.Future[int] {
				return pawl.Async(ctx, fmt.Sprint(name, n), func(context.Context) (int, error) { return n, nil })
			}
			first := then("first")
			if err := pawl.All(ctx, beside); err != nil {
				return "", err
			}
			return fmt.Sprint("attempt ", n), pawl.All(ctx, then("second"), first)
		})
		bubble(t, func(t *testing.T) {
			e := open(t, slow{memory.New()}, w)
			r, err := w.Start(t.Context(), e, "", none{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
			defer cancel()
			if got, err := r.Result(ctx); err != nil || got != "attempt 2" {
				t.Errorf("%s: %q, %v; problem: %v", name, got, err, e.Problem(r.ID))
			}
		})
	}
}

// TestRetryBeforeWhatFollows: a step is retried by an operator while what the body makes of its failure is on its way. The body is
// called anew, and that is void.
func TestRetryBeforeWhatFollows(t *testing.T) {
	calls := 0
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		_, err := pawl.Step(ctx, "pay", func(ctx context.Context) (int, error) {
			if calls++; calls > 1 {
				return 0, nil
			}
			<-time.After(3450 * time.Millisecond)
			return 0, errors.New("no money")
		}, pawl.Retry("fixed(1, 1s)"))
		if err != nil {
			return "refunded", pawl.Do(ctx, "refund", func(context.Context) error { return nil })
		}
		return "sent", pawl.Do(ctx, "send", func(context.Context) error { return nil })
	})
	bubble(t, func(t *testing.T) {
		e := open(t, slow{memory.New()}, w)
		r, err := w.Start(t.Context(), e, "", none{}) // at 1s; pay begins at 2s
		if err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("x", 1_200_000) // a batch takes nothing more after it
		var all sync.WaitGroup
		at := func(ms time.Duration, do func() error) {
			all.Go(func() {
				<-time.After(ms*time.Millisecond - time.Second)
				if err := do(); err != nil {
					t.Error(err)
				}
			})
		}
		at(4500, func() error { return pawl.SendEvent(t.Context(), e, r.ID, "note", "") }) // on its way until 5.5s
		at(4600, func() error { return pawl.SendEvent(t.Context(), e, r.ID, "note", large) })
		// pay fails at 5.45s; that is heard of at 5.5s, and what follows it at 6.5s
		at(5460, func() error { return pawl.SendEvent(t.Context(), e, r.ID, "note", large) })
		at(5470, func() error { return e.Operate(t.Context(), r.ID, pawl.Operation{Op: pawl.OpRetryRun}) })
		all.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got, err := r.Result(ctx)
		d, descErr := e.DescribeRun(t.Context(), r.ID)
		if err != nil || descErr != nil || got != "sent" || len(d.Steps) != 2 {
			t.Errorf("%q, %v, %v; want no refund: %+v", got, err, descErr, d.Steps)
		}
	})
}

// TestRetryBeforeTheEndIsDurable: a run is opened again while its end is on its way to the disk.
func TestRetryBeforeTheEndIsDurable(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		pawl.EventAsync[string](ctx, "approved")
		if err := pawl.Sleep(ctx, "nap", "10s"); err != nil {
			return "", err
		}
		return "", &declined{Code: 7}
	})
	bubble(t, func(t *testing.T) {
		e := open(t, slow{memory.New()}, w)
		r, err := w.Start(t.Context(), e, "", none{})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(9500 * time.Millisecond) // it has failed half a second ago
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: pawl.OpRetryRun}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var own *declined
		if _, err := r.Result(ctx); !errors.As(err, &own) {
			t.Errorf("%v; problem: %v", err, e.Problem(r.ID))
		}
	})
}

// TestRetryOfAFlowBeforeItsEndIsDurable: a flow has no body to be called again.
func TestRetryOfAFlowBeforeItsEndIsDurable(t *testing.T) {
	w := pawl.DefineFlow[any, string](parsed(t, "w", "steps: [{name: paid, wait: paid, timeout: 10s}]\noutput: ${{ steps.paid.output }}\n"))
	bubble(t, func(t *testing.T) {
		e := open(t, slow{memory.New()}, w)
		r, err := w.Start(t.Context(), e, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(9500 * time.Millisecond) // it has failed half a second ago
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: pawl.OpRetryRun}); err != nil {
			t.Fatal(err)
		}
		if err := e.Problem(r.ID); err != nil {
			t.Error(err)
		}
		if err := r.Send(t.Context(), "paid", "in cash"); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != "in cash" {
			t.Errorf("%q, %v", got, err)
		}
	})
}
