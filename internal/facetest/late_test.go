package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestLateEnds checks attempts that succeed after their limit has fired and before their worker is told, as a slow
// disk allows. The body has gone on by then with the result that is not taken: its decisions on that result are void,
// the later ones too, and everything that ended beside it has ended.
func TestLateEnds(t *testing.T) {
	const limit = time.Minute
	for name, c := range map[string]struct{ beside, computes time.Duration }{
		"in one commit":   {time.Millisecond, 1500 * time.Microsecond},
		"in two":          {time.Millisecond, 0},
		"long after that": {200 * time.Millisecond, 0},
	} {
		var end time.Time // when the first attempt ends: after its limit has fired, before that is saved
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
			late := pawl.Async(ctx, "late", func(ctx context.Context) (int, error) {
				if pawl.Attempt(ctx).Number == 1 {
					<-time.After(time.Until(end)) // however many commits were before it began
				}
				return pawl.Attempt(ctx).Number, nil
			}, pawl.AttemptTimeout(limit), pawl.Retry("fixed(2, 1h)"))
			beside := pawl.Async(ctx, "beside", func(ctx context.Context) (none, error) {
				return none{}, wait(ctx, time.Until(end)+c.beside)
			})
			n, err := late.Get(ctx)
			if err != nil {
				return "", err
			}
			<-time.After(c.computes) //pawlvet:ignore virtual time, in which the body computes
			then := func(name string) *pawl.Future[int] {
				return pawl.Async(ctx, fmt.Sprint(name, n), func(context.Context) (int, error) { return n, nil })
			}
			first := then("first")
			if _, err := beside.Get(ctx); err != nil {
				return "", err
			}
			return fmt.Sprint("attempt ", n), second(pawl.All(ctx, then("second"), first))
		})
		bubble(t, func(t *testing.T) {
			e := open(t, slow{memory.New(), time.Second}, w)
			end = time.Now().Add(limit + 500*time.Millisecond) // the limit counts from the start of the run
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

// TestRetryBeforeWhatFollows checks that an operator can retry a step while the end of its run, which its failure has
// caused, is on its way. The body is called anew, and that end is void.
func TestRetryBeforeWhatFollows(t *testing.T) {
	calls := 0
	var fails time.Time
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		_, err := pawl.Step(ctx, "pay", func(ctx context.Context) (int, error) {
			if calls++; calls > 1 {
				return 0, nil
			}
			<-time.After(time.Until(fails)) // however many commits were before it began
			return 0, errors.New("no money")
		}, pawl.Retry("fixed(1, 1s)"))
		if err != nil {
			return "", err
		}
		return "sent", pawl.Do(ctx, "send", func(context.Context) error { return nil })
	})
	bubble(t, func(t *testing.T) {
		e := open(t, slow{memory.New(), time.Second}, w)
		fails = time.Now().Add(5450 * time.Millisecond)
		r, err := w.Start(t.Context(), e, "", none{}) // it takes a second
		if err != nil {
			t.Fatal(err)
		}
		beforeWhatFollows(t, e, r.ID, pawl.Operation{Op: client.OpRetryStep, Step: "pay"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got, err := r.Result(ctx)
		d, descErr := e.DescribeRun(t.Context(), r.ID)
		if err != nil || descErr != nil || got != "sent" || len(d.Steps) != 2 {
			t.Errorf("%q, %v, %v: %+v", got, err, descErr, d.Steps)
		}
	})
}

// beforeWhatFollows operates on a run while what its body makes of a failed step is on its way. The run was started 1s
// ago, which is when the times below count from, and the step fails at 5.45s.
func beforeWhatFollows(t *testing.T, e *pawl.Engine, run string, op pawl.Operation) {
	t.Helper()
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
	// The event is on its way until 5.5s.
	at(4500, func() error { return pawl.Event[string]("note").Send(t.Context(), e, run, "") })
	at(4600, func() error { return pawl.Event[any]("note").Send(t.Context(), e, run, large) })
	// the step fails at 5.45s; that is heard of at 5.5s, and what follows it at 6.5s
	at(5460, func() error { return pawl.Event[any]("note").Send(t.Context(), e, run, large) })
	at(5470, func() error { return e.Operate(t.Context(), run, op) })
	all.Wait()
}

// TestPauseBeforeWhatFollows checks a run that is paused while its body has a child run on its way. The child begins
// when the run goes on.
func TestPauseBeforeWhatFollows(t *testing.T) {
	child := pawl.Define("child", func(pawl.Context, none) (string, error) { return "paid by the child", nil })
	var fails time.Time
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		err := pawl.Do(ctx, "pay", func(ctx context.Context) error {
			<-time.After(time.Until(fails))
			return errors.New("no money")
		}, pawl.Retry("fixed(1, 1s)"))
		if err == nil {
			return "", nil
		}
		return pawl.Child(ctx, "pays", child, none{})
	})
	bubble(t, func(t *testing.T) {
		e := open(t, slow{memory.New(), time.Second}, w, child)
		fails = time.Now().Add(5450 * time.Millisecond)
		r, err := w.Start(t.Context(), e, "", none{})
		if err != nil {
			t.Fatal(err)
		}
		beforeWhatFollows(t, e, r.ID, pawl.Operation{Op: client.OpPause})
		<-time.After(time.Minute)
		d, err := e.DescribeRun(t.Context(), r.ID)
		if err != nil || d.Phase != "paused" || len(d.Steps) != 1 {
			t.Errorf("%s, %v; want nothing new: %+v", d.Phase, err, d.Steps)
		}
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpResume}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got, err := r.Result(ctx); err != nil || got != "paid by the child" {
			t.Errorf("%q, %v; problem: %v", got, err, e.Problem(r.ID))
		}
	})
}

// TestRetryThatEndsAtOnce checks the retry of a wait whose event has come by then. The body hears that the wait has
// ended in another way than before, and says again that it waits.
func TestRetryThatEndsAtOnce(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		f := pawl.Event[string]("approved").WaitAsync(ctx, pawl.Within("10s"))
		if err := pawl.Sleep(ctx, "nap", "1h"); err != nil {
			return "", err
		}
		return f.Get(ctx)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", none{})
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(10*time.Second + 50*time.Millisecond)
		if err := pawl.Event[string]("approved").Send(t.Context(), e, r.ID, "yes"); err != nil {
			t.Fatal(err)
		}
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryStep, Step: "approved"}); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		if d, err := e.DescribeRun(t.Context(), r.ID); err != nil || d.Phase != "waiting" {
			t.Errorf("%s, %v; want waiting", d.Phase, err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != "yes" {
			t.Errorf("%q, %v", got, err)
		}
	}, w)
}

// TestRetryInAPause checks a step that ends and is retried while its run is paused. Its body hears of neither, and
// says again that it waits when the run goes on.
func TestRetryInAPause(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		return pawl.Event[string]("approved").Wait(ctx)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", none{})
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(50 * time.Millisecond)
		for _, op := range []pawl.Operation{
			{Op: client.OpPause},
			{Op: client.OpFail, Step: "approved"},
			{Op: client.OpRetryStep, Step: "approved"},
			{Op: client.OpResume},
		} {
			if err := e.Operate(t.Context(), r.ID, op); err != nil {
				t.Fatal(err)
			}
		}
		e.Skip(time.Minute)
		if d, err := e.DescribeRun(t.Context(), r.ID); err != nil || d.Phase != "waiting" {
			t.Errorf("%s, %v; want waiting", d.Phase, err)
		}
	}, w)
}

// TestRetryBeforeTheEndIsDurable checks a run that is opened again while its end is on its way to the disk.
func TestRetryBeforeTheEndIsDurable(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (string, error) {
		//pawlvet:ignore nobody waits for it here
		pawl.Event[string]("approved").WaitAsync(ctx)
		if err := pawl.Sleep(ctx, "nap", "10s"); err != nil {
			return "", err
		}
		return "", &declined{Code: 7}
	})
	bubble(t, func(t *testing.T) {
		e := open(t, slow{memory.New(), time.Second}, w)
		r, err := w.Start(t.Context(), e, "", none{})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(9500 * time.Millisecond) // it has failed half a second ago
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryStep, Step: "approved"}); err != nil {
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
