package pawlhttp_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestErrorsBeginAlike checks that every call of a client that fails says so in one form, "pawl: " and what was asked
// for, of an engine, of a server, and of an engine that was closed.
func TestErrorsBeginAlike(t *testing.T) {
	w := pawl.Define("job", func(ctx pawl.Context, _ int) (int, error) { return 1, pawl.Sleep(ctx, "nap", "1h") })
	both(t, pawl.Config{Workflows: []pawl.Definition{w}}, func(t *testing.T, e *pawltest.Env, c pawl.Client) {
		ctx := t.Context()
		calls := map[string]func(id string) error{
			"find":     func(id string) error { _, err := w.Find(ctx, c, id); return err },
			"describe": func(id string) error { _, err := c.DescribeRun(ctx, id); return err },
			"explain":  func(id string) error { _, err := c.Explain(ctx, id); return err },
			"events":   func(id string) error { _, err := c.HistoryEvents(ctx, id, 0); return err },
			"await":    func(id string) error { _, err := c.AwaitRun(ctx, id); return err },
			"event":    func(id string) error { return paid.Send(ctx, c, id, 1) },
			"update":   func(id string) error { _, err := approve.Send(ctx, c, id, "me"); return err },
			"state":    func(id string) error { _, err := stage.Get(ctx, c, id); return err },
			"cancel":   func(id string) error { return pawl.RunOf[int](c, id).Cancel(ctx, "") },
			"pause":    func(id string) error { return pawl.RunOf[int](c, id).Pause(ctx, "") },
			"restart": func(id string) error {
				_, err := c.RestartRun(ctx, id, client.RestartRequest{})
				return err
			},
			"schedule": func(id string) error { return pawl.ScheduleOf(c, id).Pause(ctx, "") },
			"list":     func(id string) error { _, err := c.ListRuns(ctx, client.Query{After: id}); return err },
		}
		tried := 0
		try := func(name, id string, err error) {
			if name != "list" && err == nil {
				t.Errorf("%s %q: no error", name, id)
			}
			if tried++; err != nil && !strings.HasPrefix(err.Error(), "pawl: ") {
				t.Errorf("%s %q: %v", name, id, err)
			}
		}
		for name, call := range calls {
			for _, id := range []string{"", "nobody", "a\x00b", "0190a5a0-0000-7000-8000-000000000000"} {
				try(name, id, call(id))
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for name, call := range calls {
			if err := call("nobody"); err == nil {
				t.Errorf("%s: a closed engine answers", name)
			} else {
				try(name, "closed", err)
			}
		}
		_, err := w.Start(ctx, c, "", 1)
		try("start", "closed", err)
		e.Reopen()
		if want := 5*len(calls) + 1; tried != want {
			t.Errorf("%d calls were looked at, want %d", tried, want)
		}
	})
	for what, err := range map[string]error{
		"open":   second(pawl.Open(t.Context(), pawl.Config{Database: "nowhere:"})),
		"no":     second(pawl.Open(t.Context(), pawl.Config{})),
		"server": second(pawlhttp.Connect("ftp://x", pawlhttp.ClientConfig{})),
		"worker": pawlhttp.Worker{Server: "http://127.0.0.1:1"}.Run(t.Context()),
		"serve":  pawlhttp.Serve(context.Background(), "http://127.0.0.1:1", pawlhttp.ServeConfig{}),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "pawl: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := pawlhttp.Serve(t.Context(), "x", pawlhttp.ServeConfig{}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("what the error is was lost: %v", err)
	}
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }
