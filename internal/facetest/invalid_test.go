package facetest

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

// TestInvalidCalls checks that every senseless request of a body is refused at once, by name, without a call of any
// function; the run fails and is not retried, even where its body ignores the error.
func TestInvalidCalls(t *testing.T) {
	never := func(context.Context) (int, error) {
		t.Error("the function was called")
		return 0, nil
	}
	child := pawl.Define("child", func(pawl.Context, int) (int, error) { return never(t.Context()) })
	for want, call := range map[string]func(ctx pawl.Context) error{
		`step "s": retry: "expnential(5, 1s)": unknown preset`: func(ctx pawl.Context) error {
			//pawlvet:ignore the mistake that is tested
			return second(pawl.Step(ctx, "s", never, pawl.Retry("expnential(5, 1s)")))
		},
		`step "s": retry: initialInterval: -1s is negative`: func(ctx pawl.Context) error {
			return second(pawl.Step(ctx, "s", never,
				pawl.Retry(pawl.RetryPolicy{MaxAttempts: 2, InitialInterval: -time.Second})))
		},
		`step "do": scheduleToClose: `: func(ctx pawl.Context) error {
			//pawlvet:ignore the mistake that is tested
			return pawl.Do(ctx, "do", func(context.Context) error { return nil }, pawl.Timeout("3w"))
		},
		`step "async": startToClose: 0s leaves no time`: func(ctx pawl.Context) error {
			return second(pawl.Async(ctx, "async", never, pawl.AttemptTimeout(0*time.Second)).Get(ctx))
		},
		`step "call": heartbeat: `: func(ctx pawl.Context) error {
			//pawlvet:ignore the mistake that is tested
			return second(pawl.HandlerRef[any, int]("handler").Call(ctx, "call", 1, pawl.HeartbeatTimeout("soon")))
		},
		`step "inner": deadline: a warning at 100%`: func(ctx pawl.Context) error {
			return second(pawl.Map(ctx, "map", 2, []int{1, 2}, func(ctx pawl.Context, _ int) (int, error) {
				return pawl.Step(ctx, "inner", never, pawl.WorkTimeout("1h", pawl.Warn(100)))
			}))
		},
		`step "in a strand": scheduleToStart: `: func(ctx pawl.Context) error {
			return second(pawl.Go(ctx, "strand", func(ctx pawl.Context) (int, error) {
				//pawlvet:ignore the mistake that is tested
				return pawl.Step(ctx, "in a strand", never, pawl.QueueTimeout("1y"))
			}).Get(ctx))
		},
		`step "event": wait: `: func(ctx pawl.Context) error {
			//pawlvet:ignore the mistake that is tested
			return second(pawl.Event[int]("event").Wait(ctx, pawl.Within("-5s")))
		},
		//pawlvet:ignore the mistake that is tested
		`step "sleep": `: func(ctx pawl.Context) error { return pawl.Sleep(ctx, "sleep", "3w") },
		`step "back": `:  func(ctx pawl.Context) error { return pawl.Sleep(ctx, "back", -time.Second) },
		`use Handler.Call for queue "mail"`: func(ctx pawl.Context) error {
			return second(pawl.Step(ctx, "s",
				never, pawl.Queue("mail")))
		},
		`step "": the name is empty`: func(ctx pawl.Context) error { return second(pawl.Step(ctx, "", never)) },
		`map "a/b": the name "a/b"`: func(ctx pawl.Context) error {
			return second(pawl.Map(ctx, "a/b", 1, []int{1}, func(pawl.Context, int) (int, error) { return 0, nil }))
		},
		`branch "#": the name`: func(ctx pawl.Context) error {
			return second(pawl.Go(ctx, "#", func(pawl.Context) (int, error) { return 0, nil }).Get(ctx))
		},
		`version "v": 2 is above 1`: func(ctx pawl.Context) error { return second(pawl.Version(ctx, "v", 2, 1)) },
		`select: without a future`:  func(ctx pawl.Context) error { return second(pawl.Select(ctx)) },
		`select: future 1 is nil`: func(ctx pawl.Context) error {
			return second(pawl.Select(ctx, pawl.Event[int]("e").WaitAsync(ctx), nil))
		},
		`all: future 1 is nil`: func(ctx pawl.Context) error {
			return second(pawl.All(ctx, pawl.SleepAsync(ctx, "s", "1s"), nil))
		},
		`all: future 0 is nil`: func(ctx pawl.Context) error {
			return second(pawl.All(ctx,
				(*pawl.Future[int])(nil)))
		},
		`step "nil": it has no function`: func(ctx pawl.Context) error {
			return second(pawl.Step[int](ctx, "nil",
				nil))
		},
		`step "nil do": it has no function`: func(ctx pawl.Context) error { return pawl.Do(ctx, "nil do", nil) },
		`branch "nil": it has no function`: func(ctx pawl.Context) error {
			return second(pawl.Go[int](ctx, "nil",
				nil).Get(ctx))
		},
		`map "nil": it has no function`: func(ctx pawl.Context) error {
			return second(pawl.Map[int, int](ctx, "nil", 1, []int{1}, nil))
		},
		`step "nil child": it has no workflow`: func(ctx pawl.Context) error {
			return second(pawl.Child[int, int](ctx, "nil child", nil, 1))
		},
		`step "call nobody": handler: the name is empty`: func(ctx pawl.Context) error {
			return second(pawl.HandlerRef[any, int]("").Call(ctx, "call nobody", 1))
		},
		`step "c": pawl: workflow "": the name`: func(ctx pawl.Context) error {
			return second(pawl.Child(ctx, "c", pawl.Define("", func(pawl.Context, int) (int, error) { return 0, nil }),
				1))
		},
	} {
		for _, looksAway := range []bool{false, true} {
			bodies := 0
			w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
				bodies++
				err := call(ctx)
				if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				if looksAway {
					return 1, nil
				}
				return 0, fmt.Errorf("order 7: %w", err)
			}, pawl.RunRetry("fixed(3, 1s)"))
			pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
				_, err := run(t, e.Engine, w, none{})
				var ended *pawl.RunError
				if !errors.As(err, &ended) || !errors.Is(err, pawl.ErrInvalid) ||
					!strings.Contains(err.Error(), want) || bodies != 1 {
					t.Errorf("looks away %t: the run ended with %v, after %d calls of the body", looksAway, err, bodies)
				}
			}, w, child)
		}
	}
}

// TestInvalidCallsDoNotContinue checks that a chain does not go on past a senseless call.
func TestInvalidCallsDoNotContinue(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, n int) (int, error) {
		//pawlvet:ignore the mistake that is tested
		_ = pawl.Sleep(ctx, "s", "1 fortnight")
		return n, pawl.ContinueAsNew(ctx, n+1)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := run(t, e.Engine, w, 1); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}, w)
}

func TestMustPolicy(t *testing.T) {
	calls := 0
	twice := pawl.MustPolicy(pawl.Retry("fixed(9, 1h)"), pawl.Timeout("90m"))
	w := pawl.Define("w", func(ctx pawl.Context, _ none) (int, error) {
		return pawl.Step(ctx, "s", func(context.Context) (int, error) {
			calls++
			return 0, errors.New("no")
		}, twice)
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := run(t, e.Engine, w, none{}); err == nil || calls != 2 {
			t.Errorf("%v after %d calls, want 2", err, calls)
		}
	}, w)
	defer func() {
		err, ok := recover().(error)
		if !ok || !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "policy: retry: ") ||
			!strings.Contains(err.Error(), "scheduleToClose: ") {
			t.Errorf("the panic is %v", err)
		}
	}()
	//pawlvet:ignore the mistake that is tested
	pawl.MustPolicy(pawl.Retry("sometimes"), pawl.Timeout("later"))
}

func TestServeRefuses(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		h := pawl.Handle("h", func(context.Context, int) (int, error) { return 1, nil })
		for _, queue := range []string{"r", "s"} {
			must(t, e.Serve(queue, 1, h))
		}
		for want, err := range map[string]error{
			`serve "q": 0 slots: give at least 1`:          e.Serve("q", 0, h),
			`serve "q": handler "nil": it has no function`: e.Serve("q", 1, pawl.Handle[int, int]("nil", nil)),
			`serve "q": the name is empty`:                 e.Serve("q", 1, pawl.Handler[int, int]{}),
			`serve "q": handler "h": it is given twice`:    e.Serve("q", 1, h, h),
			`serve "r": handler "h": it is served already`: e.Serve("r", 1, h),
			`serve "q": handler "go": it is called like what`: e.Serve("q", 1,
				pawl.Handle("go", func(context.Context, int) (int, error) { return 1, nil })),
		} {
			if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	for want, cfg := range map[string]pawl.Config{
		"has no scheme":                      {Database: "shop.db"},
		"is linked":                          {Database: "oracle:x"},
		"has no file name":                   {Database: "sqlite:"},
		"Config.MaxPayload is negative":      {Database: "memory:", MaxPayload: -1},
		"Config.Concurrency is negative":     {Database: "memory:", Concurrency: -1},
		"Config.TaskTimeout is negative":     {Database: "memory:", TaskTimeout: -1},
		"Config.TaskTimeout: 1h0m0s is more": {Database: "memory:", TaskTimeout: time.Hour},
		"Config.Grace is negative":           {Database: "memory:", Grace: -1},
		"Config.Retention is negative":       {Database: "memory:", Retention: -time.Hour},
		`defined twice: give one of the two`: {Database: "memory:", Workflows: []pawl.Definition{answer(1), answer(2)}},
		`workflow "": the name is empty`: {
			Database:  "memory:",
			Workflows: []pawl.Definition{pawl.Define[int, int]("", nil)},
		},
	} {
		e, err := pawl.Open(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if e != nil {
			_ = e.Close()
		}
	}
}

func answer(n int) *pawl.Workflow[int, int] {
	return pawl.Define("answer", func(pawl.Context, int) (int, error) { return n, nil })
}
