package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMisuse(t *testing.T) {
	var kept pawl.Context
	w := pawl.Define("misuse", func(ctx pawl.Context, how string) (int, error) {
		kept = ctx
		switch how {
		case "nested":
			return pawl.Step(ctx, "outer", func(context.Context) (int, error) {
				return pawl.Step(ctx, "inner", func(context.Context) (int, error) { return 1, nil })
			})
		case "name":
			return pawl.Step(ctx, "a/b", func(context.Context) (int, error) { return 1, nil })
		case "policy":
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
		for how, want := range map[string]string{
			"nested": "steps do not nest", "name": "Pawl uses in keys", "policy": "sometimes", "queue": "use Handler.Call",
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
			pawl.ErrContextEnded) {
			t.Errorf("a kept context: %v", err)
		}
		wrong := pawl.Define("misuse", func(pawl.Context, none) (int, error) { return 1, nil })
		if _, err := wrong.Start(t.Context(), e, "", none{}); err == nil ||
			!strings.Contains(err.Error(), "defined twice") {
			t.Errorf("two definitions: %v", err)
		}
		if _, err := e.StartRun(t.Context(), pawl.StartRequest{Workflow: "unknown"}); err == nil ||
			!strings.Contains(err.Error(), "not registered") {
			t.Errorf("unknown: %v", err)
		}
		if started, err := e.StartRun(t.Context(),
			pawl.StartRequest{Workflow: "misuse", Input: []byte(`{"a": 1}`)}); err != nil {
			t.Error(err)
		} else if _, err := pawl.RunOf[int](e, started.ID).Result(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "cannot be read as string") {
			t.Errorf("wrong input: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Start(t.Context(), e, "", "x"); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("a closed engine: %v", err)
		}
		if err := e.Serve("q", 1, pawl.Handle("h",
			func(context.Context, int) (int, error) { return 0, nil })); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("a closed engine serves: %v", err)
		}
	}, w)
}

// TestFuturesOfAnotherRun: a future that was kept is refused by another run's body, however it is waited for.
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
			err = pawl.All(ctx, kept)
		case "any":
			_, err = pawl.Any(ctx, kept)
		}
		return 0, err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "", "keep"); err != nil {
			t.Fatal(err)
		}
		e.Settle()
		for _, how := range []string{"get", "all", "any"} {
			r, err := w.Start(t.Context(), e, "", how)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if _, err := r.Result(ctx); err == nil || !strings.Contains(err.Error(), "belongs to another run") {
				t.Errorf("%s: %v", how, err)
			}
			cancel()
		}
	}, w)
}

// TestMisuseBesideTheBody: a step that uses its body's context while the body goes on is told so, and disturbs nothing.
func TestMisuseBesideTheBody(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		nested := pawl.Async(ctx, "nested", func(context.Context) (bool, error) {
			told := false
			for n := 0; !told || n < 500; n++ {
				pawl.Now(ctx)
				_, err := pawl.Version(ctx, "inner", 1, 1)
				told = told || errors.Is(err, pawl.ErrNested)
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
	if got, err := run(t, open(t, nil), w, none{}); err != nil || got != 1 {
		t.Errorf("%d, %v", got, err)
	}
}
