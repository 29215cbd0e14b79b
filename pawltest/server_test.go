package pawltest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/pawltest"
)

var weigh = pawl.Handle("weigh", func(_ context.Context, id string) (int, error) { return len(id), nil })

// packing calls a handler of another process, waits an hour, and packs. pack is called at each attempt.
func packing(pack func(ctx context.Context, id string) (string, error)) *pawl.Workflow[string, string] {
	return pawl.Define("packing", func(ctx pawl.Context, id string) (string, error) {
		grams, err := weigh.Call(ctx, "weigh", id, pawl.Queue("scales"))
		if err != nil {
			return "", err
		}
		if err := pawl.Sleep(ctx, "dry", "1h"); err != nil {
			return "", err
		}
		out, err := pawl.Step(ctx, "pack", func(ctx context.Context) (string, error) { return pack(ctx, id) })
		return fmt.Sprint(out, " of ", grams), err
	})
}

func TestServedProcesses(t *testing.T) {
	w := packing(func(_ context.Context, id string) (string, error) { return "packed " + id, nil })
	pawltest.RunServer(t, func(t *testing.T, s *pawltest.Server) {
		ctx := t.Context()
		s.Serve(ctx, pawlhttp.ServeConfig{Workflows: []pawl.Definition{w}})
		s.Work(ctx, pawlhttp.Worker{Queue: "scales", Handlers: []pawl.AnyHandler{weigh}})
		run, err := w.Start(ctx, s, "p-1", "p-1")
		ok(t, err)
		s.Skip(59 * time.Minute)
		d, err := run.Describe(ctx)
		if err != nil || d.Phase != client.PhaseWaiting {
			t.Errorf("%s, %v", d.Phase, err)
		}
		if out, err := run.Result(ctx); err != nil || out != "packed p-1 of 3" {
			t.Errorf("%q, %v", out, err)
		}
	})
}

// TestServedProcessDies checks that another process goes on with the runs of one that has died, and that a step which
// it was at is made again.
func TestServedProcessDies(t *testing.T) {
	attempts, ended := 0, 0
	w := packing(func(ctx context.Context, id string) (string, error) {
		if attempts++; attempts == 1 {
			<-ctx.Done() // it dies meanwhile
			ended++
			return "", ctx.Err()
		}
		return "packed " + id, nil
	})
	cfg := pawlhttp.ServeConfig{Workflows: []pawl.Definition{w}}
	pawltest.RunServer(t, func(t *testing.T, s *pawltest.Server) {
		ctx := t.Context()
		kill := s.Serve(ctx, cfg)
		s.Work(ctx, pawlhttp.Worker{Queue: "scales", Handlers: []pawl.AnyHandler{weigh}})
		run, err := w.Start(ctx, s, "p-1", "p-1")
		ok(t, err)
		s.Skip(61 * time.Minute)
		kill()
		if attempts != 1 || ended != 1 {
			t.Errorf("%d attempts, of which %d have ended with their process", attempts, ended)
		}
		s.Serve(ctx, cfg)
		if out, err := run.Result(ctx); err != nil || out != "packed p-1 of 3" || attempts != 2 {
			t.Errorf("%q after %d attempts, %v", out, attempts, err)
		}
	})
}

// TestServerRestarts checks that processes go on when the server is back, after a deploy and after its death.
func TestServerRestarts(t *testing.T) {
	w := packing(func(_ context.Context, id string) (string, error) { return "packed " + id, nil })
	pawltest.RunServer(t, func(t *testing.T, s *pawltest.Server) {
		ctx := t.Context()
		s.Serve(ctx, pawlhttp.ServeConfig{Workflows: []pawl.Definition{w}})
		s.Work(ctx, pawlhttp.Worker{Queue: "scales", Handlers: []pawl.AnyHandler{weigh}})
		run, err := w.Start(ctx, s, "p-1", "p-1")
		ok(t, err)
		s.Skip(10 * time.Minute)
		s.Restart()
		s.Skip(10 * time.Minute)
		s.Crash()
		if out, err := run.Result(ctx); err != nil || out != "packed p-1 of 3" {
			t.Errorf("%q, %v", out, err)
		}
	})
}

// TestServedProcessStops checks that a process that is told to stop lets its step end.
func TestServedProcessStops(t *testing.T) {
	w := packing(func(ctx context.Context, id string) (string, error) {
		select {
		case <-time.After(20 * time.Second):
			return "packed " + id, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	pawltest.RunServer(t, func(t *testing.T, s *pawltest.Server) {
		ctx, stop := context.WithCancel(t.Context())
		s.Serve(ctx, pawlhttp.ServeConfig{Workflows: []pawl.Definition{w}})
		s.Work(t.Context(), pawlhttp.Worker{Queue: "scales", Handlers: []pawl.AnyHandler{weigh}})
		run, err := w.Start(t.Context(), s, "p-1", "p-1")
		ok(t, err)
		s.Skip(time.Hour + 5*time.Second)
		stop()
		s.Skip(time.Minute)
		s.Serve(t.Context(), pawlhttp.ServeConfig{Workflows: []pawl.Definition{w}})
		if out, err := run.Result(t.Context()); err != nil || out != "packed p-1 of 3" {
			t.Errorf("%q, %v", out, err)
		}
	})
}
