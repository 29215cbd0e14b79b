package pawlcluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/pgtest"
	_ "github.com/pawl-dev/pawl/journal/sqlite"
	"github.com/pawl-dev/pawl/pawlcluster"
	"github.com/pawl-dev/pawl/pawlhttp"
)

var greet = pawl.Handle("greet", func(_ context.Context, who string) (string, error) { return "hello " + who, nil })

// letters calls a handler, waits for an event and answers an update. For nobody it waits in its body until blocks is
// closed.
func letters(blocks <-chan struct{}) *pawl.Workflow[string, string] {
	return pawl.Define("letters", func(ctx pawl.Context, who string) (string, error) {
		if who == "nobody" {
			<-blocks //pawlvet:ignore it blocks until the test ends
		}
		hello, err := greet.Call(ctx, "greet", who, pawl.Queue("letters"))
		if err != nil {
			return "", err
		}
		sum, err := paid.Wait(ctx)
		if err != nil {
			return "", err
		}
		by := ""
		err = approve.Handle(ctx, nil, func(_ pawl.Context, who string) (string, error) {
			by = who
			return "thank you, " + who, nil
		})
		return fmt.Sprint(hello, " ", sum, " ", by), err
	})
}

// use does with engines what a program does: it starts by one and goes on by another.
func use(t *testing.T, w *pawl.Workflow[string, string], engines []*pawl.Engine) {
	ctx := t.Context()
	api := httptest.NewServer(pawlhttp.Handler(engines[0], nil))
	defer api.Close()
	remote, err := pawlhttp.Connect(api.URL, pawlhttp.ClientConfig{})
	ok(t, err)
	for i := range 8 {
		id := fmt.Sprint("letter-", i)
		at := func(n int) pawl.Client { return engines[(i+n)%len(engines)] }
		r, err := w.Start(ctx, at(0), id, "Ann")
		ok(t, err)
		ok(t, paid.Send(ctx, at(1), id, 100))
		if thanks, err := approve.Send(ctx, at(2), id, "Bob"); err != nil || thanks != "thank you, Bob" {
			t.Errorf("%s: answer %q, %v", id, thanks, err)
		}
		for _, c := range []pawl.Client{at(0), at(1), remote} {
			if out, err := pawl.RunOf[string](c, r.ID).Result(ctx); err != nil || out != "hello Ann 100 Bob" {
				t.Errorf("%s: result %q, %v", id, out, err)
			}
		}
		for _, e := range engines {
			history, err := e.History(ctx, id)
			ok(t, err)
			ok(t, pawl.Replay(ctx, pawl.Config{}, w, history))
			if err := e.Problem(id); err != nil {
				t.Errorf("the problem of %s: %v", id, err)
			}
		}
	}
	stuck, err := w.Start(ctx, engines[0], "stuck", "nobody")
	ok(t, err)
	for _, e := range engines {
		for err = e.Problem("stuck"); err == nil; err = e.Problem("stuck") {
			_, err := e.ListRuns(ctx, client.Query{})
			ok(t, err)
		}
		if !strings.Contains(err.Error(), "did not come to its next step") {
			t.Errorf("the problem of a body that blocks: %v", err)
		}
	}
	ok(t, stuck.Cancel(ctx, "enough"))
}

// TestSameProgram checks that a program that works with a file works as the nodes of a cluster: one field of the
// configuration is all that differs.
func TestSameProgram(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, cfg pawl.Config) *pawl.Engine {
		t.Helper()
		cfg.Log, cfg.TaskTimeout = slog.New(slog.DiscardHandler), time.Second
		e, err := pawl.Open(t.Context(), cfg)
		ok(t, err)
		ok(t, e.Serve("letters", 4, greet))
		return e
	}
	blocks := make(chan struct{})
	defer close(blocks)
	t.Run("file", func(t *testing.T) {
		w := letters(blocks)
		e := start(t, pawl.Config{
			Database: "sqlite:" + filepath.Join(t.TempDir(), "letters.db"), Workflows: []pawl.Definition{w},
		})
		use(t, w, []*pawl.Engine{e})
		ok(t, e.Shutdown(t.Context()))
	})
	t.Run("cluster", func(t *testing.T) {
		w := letters(blocks)
		server := pgtest.StartServer(t)
		address := server.DSN() + "&partitions=6&" + server.Lease()
		var engines []*pawl.Engine
		names := map[string]bool{}
		for range 3 {
			e := start(t, pawl.Config{
				Database: address, Workflows: []pawl.Definition{w},
				Cluster: pawlcluster.Node{Listen: "127.0.0.1:0", Secret: secret},
			})
			engines = append(engines, e)
			name, _ := e.Node()
			names[name] = true
		}
		if len(names) != 3 {
			t.Errorf("three nodes are called %v", names)
		}
		use(t, w, engines)
		for _, e := range engines {
			ok(t, e.Shutdown(t.Context()))
		}
	})
}

// TestLeaving checks that nobody who asks another node meanwhile is told that it is not known whether something was
// saved when a node leaves: what it has taken is answered, and the rest is refused.
func TestLeaving(t *testing.T) {
	t.Parallel()
	server := pgtest.StartServer(t)
	address := server.DSN() + "&partitions=6&" + server.Lease()
	w := pawl.Define("job", func(ctx pawl.Context, n int) (int, error) {
		return pawl.Step(ctx, "once", func(context.Context) (int, error) { return n, nil })
	})
	stay := open(t, address, w)
	var begun sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for client := range 4 {
		begun.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r, err := w.Start(t.Context(), stay, fmt.Sprintf("job-%d-%d", client, n), n)
				if err == nil {
					_, err = r.Result(t.Context())
				}
				if err != nil && !errors.Is(err, pawl.ErrHeld) {
					t.Errorf("job %d of client %d: %v", n, client, err)
					return
				}
			}
		})
	}
	for range 3 {
		other := open(t, address, w)
		for {
			if len(owned(other)) >= 2 {
				break
			}
			_, err := other.ListRuns(t.Context(), client.Query{})
			ok(t, err)
		}
		ok(t, other.Close())
	}
	cancel()
	begun.Wait()
	ok(t, stay.Close())
}
