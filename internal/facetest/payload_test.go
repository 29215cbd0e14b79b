package facetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestPayloadLimits checks that every payload of a body above the limit is refused with its size and advice, also to
// a caller that reads it back from the history, and is not retried.
func TestPayloadLimits(t *testing.T) {
	long := strings.Repeat("x", 1000)
	child := pawl.Define("child", func(pawl.Context, string) (int, error) { return 1, nil })
	attempts := 0
	for what, body := range map[string]func(ctx pawl.Context) (string, error){
		`the result of workflow w`: func(pawl.Context) (string, error) { return long, nil },
		`the result of step "s"`: func(ctx pawl.Context) (string, error) {
			return pawl.Step(ctx, "s", func(context.Context) (string, error) { attempts++; return long, nil },
				pawl.Retry("fixed(3, 1s)"))
		},
		`the result of step "h"`: func(ctx pawl.Context) (string, error) {
			return pawl.HandlerRef[any, string]("long").Call(ctx, "h", 1)
		},
		`the input of step "c"`: func(ctx pawl.Context) (string, error) {
			return pawl.HandlerRef[any, string]("long").Call(ctx, "c", long)
		},
		`the input of child "child"`: func(ctx pawl.Context) (string, error) {
			return "", second(pawl.Child(ctx, "child", child, long))
		},
		`the input to go on with`: func(ctx pawl.Context) (string, error) {
			return "", pawl.ContinueAsNew(ctx, long)
		},
	} {
		w := pawl.Define("w", func(ctx pawl.Context, _ string) (string, error) { return body(ctx) })
		pawltest.RunWith(t, pawl.Config{MaxPayload: 900, Workflows: []pawl.Definition{w, child}},
			func(t *testing.T, e *pawltest.Env) {
				if err := e.Serve("", 1, pawl.Handle("long",
					func(context.Context, int) (string, error) { return long, nil })); err != nil {
					t.Fatal(err)
				}
				_, err := run(t, e.Engine, w, "")
				want := what + " has 1002 bytes, more than the 900 that are allowed: store it elsewhere and pass a " +
					"reference"
				if !errors.Is(err, pawl.ErrTooLarge) || !strings.Contains(err.Error(), ": "+want) {
					t.Errorf("got %v, want %s", err, want)
				}
			})
	}
	if attempts != 1 {
		t.Errorf("the step was tried %d times", attempts)
	}
}

// TestHeartbeatsThatAreNotKept checks that a heartbeat whose details cannot be kept is a sign of life, and that the
// log tells the reason once.
func TestHeartbeatsThatAreNotKept(t *testing.T) {
	for want, details := range map[string]any{
		"has 1002 bytes, more than the 900": strings.Repeat("x", 1000),
		"cannot be encoded":                 func() {},
	} {
		var log bytes.Buffer
		w := pawl.Define("w", func(ctx pawl.Context, _ none) (bool, error) {
			return pawl.Step(ctx, "s", func(ctx context.Context) (bool, error) {
				_, found := pawl.Heartbeat[any]{}.Last(ctx)
				for pawl.Attempt(ctx).Number == 1 {
					pawl.Heartbeat[any]{}.Beat(ctx, details)
					if err := wait(ctx, 30*time.Second); err != nil {
						return false, err
					}
				}
				return found, nil
			}, pawl.HeartbeatTimeout("1m"), pawl.AttemptTimeout("10m"), pawl.Retry("fixed(2, 1s)"))
		})
		cfg := pawl.Config{
			MaxPayload: 900, Workflows: []pawl.Definition{w},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
			began := time.Now()
			if found, err := run(t, e.Engine, w, none{}); found || err != nil ||
				time.Since(began) != 10*time.Minute+time.Second {
				t.Errorf("%s: %t, %v after %s", want, found, err, time.Since(began))
			}
		})
		if n := strings.Count(log.String(), want); n != 1 || !strings.Contains(log.String(), "step=s") {
			t.Errorf("%q is in the log %d times:\n%s", want, n, &log)
		}
	}
}

// dataError is an error whose data is as large as one likes.
type dataError struct{ Data string }

func (e *dataError) Error() string { return "refused" }

func init() { pawl.RegisterError[*dataError]("test.data") }

// TestLargeFailures checks that an error loses data above the limit, wherever it comes from, and stays what it is: it
// is tried again, or not, as with less data.
func TestLargeFailures(t *testing.T) {
	attempts := 0
	step := func(large bool) func(context.Context) error {
		return func(context.Context) error {
			attempts++
			data := "x"
			if large {
				data = strings.Repeat("x", 3<<20)
			}
			return &dataError{data}
		}
	}
	for name, body := range map[string]func(ctx pawl.Context) error{
		"of a step": func(ctx pawl.Context) error {
			return pawl.Do(ctx, "s", step(true), pawl.Retry("fixed(3, 1s)"))
		},
		"of a body": func(pawl.Context) error { return step(true)(t.Context()) },
		"of an operator": func(ctx pawl.Context) error {
			return second(pawl.HandlerRef[any, string]("nobody").Call(ctx, "h", 1))
		},
	} {
		attempts = 0
		w := pawl.Define("w", func(ctx pawl.Context, _ string) (string, error) { return "", body(ctx) })
		pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
			r, err := w.Start(t.Context(), e, "", "")
			if err == nil && name == "of an operator" {
				err = e.Operate(t.Context(), r.ID, pawl.Operation{
					Op: client.OpFail, Step: "h", Err: step(true)(t.Context()),
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Result(t.Context())
			const left = "refused; the data of this failure is left out: the payload has 3"
			if err == nil || !strings.Contains(err.Error(), left) {
				t.Errorf("%s: %.300v", name, err)
			}
			d, err := e.Explain(t.Context(), r.ID)
			if text, _ := json.Marshal(d); err != nil || len(text) > 20_000 {
				t.Errorf("%s: %d bytes are kept, %v", name, len(text), err)
			}
			if name == "of a step" && attempts != 3 {
				t.Errorf("%s: %d attempts", name, attempts)
			}
		}, w)
	}
}
