package facetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMisuse(t *testing.T) {
	var kept pawl.Context
	w := pawl.Define("misuse", func(ctx pawl.Context, how string) (int, error) {
		kept = ctx
		switch how {
		case "nested":
			return pawl.Step(ctx, "outer", func(context.Context) (int, error) {
				//pawlvet:ignore the mistake that is tested
				return pawl.Step(ctx, "inner", func(context.Context) (int, error) { return 1, nil })
			})
		case "name":
			return pawl.Step(ctx, "a/b", func(context.Context) (int, error) { return 1, nil })
		case "policy":
			//pawlvet:ignore the mistake that is tested
			return pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil }, pawl.Retry("sometimes"))
		case "queue":
			return pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil }, pawl.Queue("mail"))
		case "large":
			_, err := pawl.Step(ctx, "s", func(context.Context) (string, error) {
				return strings.Repeat("x", 3<<20), nil
			})
			return 0, err
		case "json":
			_, err := pawl.Step(ctx, "s", func(context.Context) (any, error) { return func() {}, nil },
				pawl.Retry("fixed(9, 1s)"))
			return 0, err
		}
		return 1, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		e.AllowStuck()
		for how, want := range map[string]string{
			"nested": "steps do not nest", "name": "Pawl uses in keys", "policy": "sometimes",
			"queue": "use Handler.Call",
			"large": "raise Config.MaxPayload", "json": "cannot be encoded",
		} {
			if _, err := run(t, e.Engine, w, how); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", how, err)
			}
		}
		if _, err := run(t, e.Engine, w, "fine"); err != nil {
			t.Fatal(err)
		}
		if _, err := pawl.Step(kept, "late", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err,
			pawl.ErrInvalid) {
			t.Errorf("a kept context: %v", err)
		}
		wrong := pawl.Define("misuse", func(pawl.Context, none) (int, error) { return 1, nil })
		if _, err := wrong.Start(t.Context(), e, "", none{}); err == nil ||
			!strings.Contains(err.Error(), "defined twice") {
			t.Errorf("two definitions: %v", err)
		}
		if _, err := e.StartRun(t.Context(), client.StartRequest{Workflow: "unknown"}); err == nil ||
			!strings.Contains(err.Error(), "not registered") {
			t.Errorf("unknown: %v", err)
		}
		if started, err := e.StartRun(t.Context(),
			client.StartRequest{Workflow: "misuse", Input: []byte(`{"a": 1}`)}); err != nil {
			t.Error(err)
		} else if _, err := pawl.RunOf[int](e, started.ID).Result(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "cannot be read as string") {
			t.Errorf("wrong input: %v", err)
		}
		must(t, e.Close())
		if _, err := w.Start(t.Context(), e, "", "x"); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("a closed engine: %v", err)
		}
		if err := e.Serve("q", 1, pawl.Handle("h",
			func(context.Context, int) (int, error) { return 0, nil })); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("a closed engine serves: %v", err)
		}
	}, w)
}

// TestFuturesOfAnotherRun checks that a future of one run is refused by another run's body, however that waits for
// it.
func TestFuturesOfAnotherRun(t *testing.T) {
	var kept *pawl.Future[int]
	w := pawl.Define("w", func(ctx pawl.Context, how string) (int, error) {
		var err error
		switch how {
		case "keep":
			kept = pawl.Event[int]("e").WaitAsync(ctx)
			_, err = kept.Get(ctx)
		case "get":
			_, err = kept.Get(ctx)
		case "all":
			_, err = pawl.All(ctx, kept)
		case "select":
			_, err = pawl.Select(ctx, kept)
		}
		return 0, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "", "keep"); err != nil {
			t.Fatal(err)
		}
		e.Settle()
		for _, how := range []string{"get", "all", "select"} {
			r := started(t, e, w, "", how)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if _, err := r.Result(ctx); err == nil || !strings.Contains(err.Error(), "belongs to another run") {
				t.Errorf("%s: %v", how, err)
			}
			cancel()
		}
	}, w)
}

// TestMisuseBesideTheBody checks that a step that uses its body's context while the body goes on is told so, and the
// run fails even where the step ignores it.
func TestMisuseBesideTheBody(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		nested := pawl.Async(ctx, "nested", func(context.Context) (bool, error) {
			told := false
			for n := 0; !told || n < 500; n++ {
				pawl.Now(ctx)                              //pawlvet:ignore the mistake that is tested
				_, err := pawl.Version(ctx, "inner", 1, 1) //pawlvet:ignore the mistake that is tested
				told = told || errors.Is(err, pawl.ErrInvalid)
			}
			return told, nil
		})
		for range 20 {
			if err := pawl.Sleep(ctx, "nap", "1ms"); err != nil {
				return 0, err
			}
			pawl.Now(ctx)
		}
		if told, err := nested.Get(ctx); err != nil || !told {
			return 0, fmt.Errorf("told %t, %w", told, err)
		}
		return 1, nil
	})
	if got, err := run(t, open(t, nil), w, none{}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("%d, %v", got, err)
	}
}

// TestForeignGoroutine checks that a goroutine that the body has begun by itself is told that it cannot use the
// body's context, however the body waits for it, and that the run fails.
func TestForeignGoroutine(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, how string) (int, error) {
		told, foreign := make(chan error), func() error { return pawl.Sleep(ctx, "nap", "1h") }
		switch how {
		case "waits":
			go func() { told <- foreign() }() //pawlvet:ignore the mistake that is tested
			<-told                            //pawlvet:ignore the mistake that is tested; its answer is ignored
		case "after many calls": // calls are not only looked at in the beginning
			for range 1100 {
				_ = pawl.UUID(ctx)
			}
			for range 3 {
				go func() { told <- foreign() }() //pawlvet:ignore the mistake that is tested
				if err := <-told; err == nil {    //pawlvet:ignore the mistake that is tested
					return 0, errors.New("a call was not told")
				}
			}
		case "another branch":
			branch := pawl.Go(ctx, "b", func(pawl.Context) (int, error) { return 0, foreign() })
			return branch.Get(ctx)
		case "UUID":
			return 0, pawl.Do(ctx, "s", func(context.Context) error {
				t.Errorf("a step got %s", pawl.UUID(ctx)) //pawlvet:ignore the mistake that is tested
				return nil
			})
		case "Random":
			return 0, pawl.Do(ctx, "s", func(context.Context) error {
				t.Errorf("a step got %d", pawl.Random(ctx).Int()) //pawlvet:ignore the mistake that is tested
				return nil
			})
		}
		return 1, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for how, want := range map[string]string{
			"waits": "use the context that it gets", "after many calls": "use the context that it gets",
			"another branch": "a branch does one thing at a time",
			"UUID":           "pawl.UUID while step", "Random": "pawl.Random while step",
		} {
			_, err := run(t, e.Engine, w, how)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", how, err)
			}
			panics := how == "UUID" || how == "Random"
			if panics && !strings.Contains(err.Error(), "(at facetest/misuse_test.go:") {
				t.Errorf("%s: %v does not name the line of the step", how, err)
			}
			if !errors.Is(err, pawl.ErrInvalid) && !panics {
				t.Errorf("%s: %v is not ErrNested", how, err)
			}
		}
	}, w)
}

// TestCauseOfAStepsContext checks that the context of a step, and those derived from it, tell why they are done.
func TestCauseOfAStepsContext(t *testing.T) {
	type end struct{ err, cause error }
	ends := make(chan end, 2)
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Step(ctx, "s", func(ctx context.Context) (int, error) {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			<-derived.Done()
			ends <- end{derived.Err(), context.Cause(derived)}
			<-ctx.Done()
			ends <- end{ctx.Err(), context.Cause(ctx)}
			return 0, ctx.Err()
		}, pawl.AttemptTimeout("1h"))
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		for how, want := range map[string]end{
			"limit":  {context.DeadlineExceeded, pawl.ErrTimedOut},
			"cancel": {context.Canceled, pawl.ErrCancelled},
		} {
			if _, err := w.Start(t.Context(), e, how, none{}); err != nil {
				t.Fatal(err)
			}
			e.Skip(time.Minute)
			if how == "cancel" {
				must(t, e.Operate(t.Context(), how, pawl.Operation{Op: client.OpCancel}))
			}
			e.Skip(2 * time.Hour)
			for range 2 {
				if got := <-ends; got.err != want.err || !errors.Is(got.cause, want.cause) {
					t.Errorf("%s: %v because of %v", how, got.err, got.cause)
				}
			}
		}
	}, w)
}

// shopError is an error of a user's, with data.
type shopError struct{ Item string }

func (e *shopError) Error() string { return "no " + e.Item }

func init() { pawl.RegisterError[*shopError]("test.shop") }

// TestErrorsInTheHistory checks that errors that were joined come back from the history together, those of the standard
// library without being registered, and a run that was terminated is not one that was cancelled.
func TestErrorsInTheHistory(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Step(ctx, "s", func(context.Context) (int, error) {
			_, missing := os.Open("there is no such file")
			return 0, fmt.Errorf("import: %w", errors.Join(&shopError{"tea"}, missing, io.ErrUnexpectedEOF,
				&shopError{"milk"}, fmt.Errorf("query: %w", sql.ErrNoRows), context.Canceled))
		})
	})
	child := pawl.Define("child", func(ctx pawl.Context, _ none) (int, error) { return 0, pawl.Sleep(ctx, "s", "1h") })
	parent := pawl.Define("parent", func(ctx pawl.Context, _ none) (int, error) {
		_, err := pawl.Child(ctx, "c", child, none{})
		if !errors.Is(err, pawl.ErrTerminated) || errors.Is(err, pawl.ErrCancelled) {
			t.Errorf("the child run ended with %v", err)
		}
		return 0, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		_, err := run(t, e.Engine, w, none{})
		for _, want := range []error{
			fs.ErrNotExist, io.ErrUnexpectedEOF, sql.ErrNoRows, context.Canceled,
		} {
			if !errors.Is(err, want) {
				t.Errorf("%v is not %v", err, want)
			}
		}
		var own *shopError
		if !errors.As(err, &own) || own.Item != "tea" || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v with %v", err, own)
		}
		r := started(t, e, parent, "p", none{})
		e.Skip(time.Minute)
		runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "child"})
		if err != nil || len(runs) != 1 {
			t.Fatalf("%d child runs, %v", len(runs), err)
		}
		must(t, e.Operate(t.Context(), runs[0].ID, pawl.Operation{Op: client.OpTerminate}))
		_, ofParent := r.Result(t.Context())
		_, ofChild := pawl.RunOf[int](e, runs[0].ID).Result(t.Context())
		for _, err := range []error{ofParent, ofChild} {
			if !errors.Is(err, pawl.ErrTerminated) || errors.Is(err, pawl.ErrCancelled) {
				t.Errorf("%v is not ErrTerminated, or ErrCancelled", err)
			}
		}
	}, w, parent, child)
}
