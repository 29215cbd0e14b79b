package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestPayloadLimits: whatever a body makes that is above the limit is refused with its size and what to do, also to a caller that
// reads it back from the history, and is not retried.
func TestPayloadLimits(t *testing.T) {
	long := strings.Repeat("x", 1000)
	child := pawl.Define("child", func(pawl.Context, string) (int, error) { return 1, nil })
	second := func(_ any, err error) error { return err }
	attempts := 0
	for what, body := range map[string]func(ctx pawl.Context) (string, error){
		`the result of workflow w`: func(pawl.Context) (string, error) { return long, nil },
		`the result of step "s"`: func(ctx pawl.Context) (string, error) {
			return pawl.Step(ctx, "s", func(context.Context) (string, error) { attempts++; return long, nil }, pawl.Retry("fixed(3, 1s)"))
		},
		`the result of step "h"`:     func(ctx pawl.Context) (string, error) { return pawl.Call[string](ctx, "h", "long", 1) },
		`the input of step "c"`:      func(ctx pawl.Context) (string, error) { return pawl.Call[string](ctx, "c", "long", long) },
		`the input of child "child"`: func(ctx pawl.Context) (string, error) { return "", second(pawl.Child(ctx, "child", child, long)) },
		`the input to go on with`:    func(ctx pawl.Context) (string, error) { return "", pawl.ContinueAsNew(ctx, long) },
	} {
		w := pawl.Define("w", func(ctx pawl.Context, _ string) (string, error) { return body(ctx) })
		pawltest.RunWith(t, pawl.Config{MaxPayload: 900, Workflows: []pawl.Definition{w, child}}, func(t *testing.T, e *pawltest.Env) {
			if err := e.Serve("", 1, pawl.Handle("long", func(context.Context, int) (string, error) { return long, nil })); err != nil {
				t.Fatal(err)
			}
			_, err := run(t, e.Engine, w, "")
			want := what + " has 1002 bytes, more than the 900 that are allowed: store it elsewhere and pass a reference"
			if !errors.Is(err, pawl.ErrTooLarge) || !strings.Contains(err.Error(), ": "+want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	if attempts != 1 {
		t.Errorf("the step was tried %d times", attempts)
	}
}
