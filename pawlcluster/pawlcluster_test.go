package pawlcluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/pgtest"
	_ "github.com/pawl-dev/pawl/journal/postgres"
	"github.com/pawl-dev/pawl/pawlcluster"
)

const (
	paid    pawl.Event[int]             = "paid"
	approve pawl.Update[string, string] = "approve"
)

var secret = []byte(strings.Repeat("s", 32))

// order waits for an event and for an update.
func order() *pawl.Workflow[int, string] {
	return pawl.Define("order", func(ctx pawl.Context, n int) (string, error) {
		sum, err := paid.Wait(ctx)
		if err != nil {
			return "", err
		}
		by := ""
		err = approve.Handle(ctx, nil, func(_ pawl.Context, who string) (string, error) {
			by = who
			return "thank you, " + who, nil
		})
		if err != nil {
			return "", err
		}
		return pawl.Step(ctx, "ship", func(context.Context) (string, error) { return fmt.Sprint(n+sum, by), nil })
	})
}

func open(t *testing.T, address string, w pawl.Definition) *pawl.Engine {
	t.Helper()
	return openWith(t, pawl.Config{Database: address, Workflows: []pawl.Definition{w}})
}

func openWith(t *testing.T, cfg pawl.Config) *pawl.Engine {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Cluster = pawlcluster.Node{Listen: "127.0.0.1:0", Secret: secret}
	e, err := pawl.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNodes checks that three nodes work with the runs of all of them, also when one loses its database and is
// replaced, and one leaves.
func TestNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := pgtest.StartServer(t)
	address := server.DSN() + "&partitions=6&" + server.Lease()
	dying := pgtest.NewProxy(t, address)
	w := order()
	nodes := []*pawl.Engine{open(t, address, w), open(t, address, w), open(t, dying.DSN(), w)}
	const runs = 24
	for i := range runs {
		id := fmt.Sprint("order-", i)
		r, err := w.Start(ctx, nodes[i%3], id, i)
		ok(t, err)
		if again, err := w.Start(ctx, nodes[(i+1)%3], id, i, pawl.UseExisting()); err != nil || again.ID != r.ID {
			t.Errorf("the run that is there: %+v, %v", again, err)
		}
		ok(t, paid.Send(ctx, nodes[(i+2)%3], id, 100))
	}
	dying.Hold() // the third node says nothing to the database any more
	finish := func(c pawl.Client, i int) {
		id := fmt.Sprint("order-", i)
		if thanks, err := approve.Send(ctx, c, id, "Ann"); err != nil || thanks != "thank you, Ann" {
			t.Errorf("%s: answer %q, %v", id, thanks, err)
		}
		if out, err := pawl.RunOf[string](c, id).Result(ctx); err != nil || out != fmt.Sprint(i+100, "Ann") {
			t.Errorf("%s: result %q, %v", id, out, err)
		}
	}
	for i := range runs / 2 {
		finish(nodes[i%2], i)
	}
	ok(t, nodes[1].Close())
	for i := runs / 2; i < runs; i++ {
		finish(nodes[0], i)
	}
	d, err := nodes[0].DescribeRun(ctx, "order-1")
	if err != nil || d.Phase != client.PhaseSucceeded {
		t.Errorf("%+v, %v", d, err)
	}
	dying.Release()
	_ = nodes[2].Close() // its database was gone: what it says does not matter
	ok(t, nodes[0].Close())
}

// TestSchedules checks that schedules start runs on all nodes, whichever has the schedule itself, and wait for their
// ends.
func TestSchedules(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := pgtest.StartServer(t)
	address := server.DSN() + "&partitions=6&" + server.Lease()
	w := pawl.Define("job", func(_ pawl.Context, n int) (int, error) { return n, nil })
	nodes := []*pawl.Engine{open(t, address, w), open(t, address, w)}
	names := []string{"a", "b", "c", "d"} // the names are in several partitions
	for i, name := range names {
		_, err := w.EnsureSchedule(ctx, nodes[i%2], name, client.Schedule{
			Cron: "@every 1s", Overlap: client.OverlapQueue,
		}, i)
		ok(t, err)
	}
	for i, name := range names {
		for ended, over := 0, time.Now().Add(30*time.Second); ended < 2; {
			if time.Now().After(over) {
				t.Fatalf("schedule %s has let %d runs end", name, ended)
			}
			all, err := nodes[(i+1)%2].ListRuns(ctx, client.Query{
				Labels: map[string]string{"pawl.schedule": name}, Phases: []client.Phase{client.PhaseSucceeded},
			})
			ok(t, err)
			ended = len(all)
		}
		d, err := pawl.ScheduleOf(nodes[i%2], name).Describe(ctx)
		if err != nil || d.LastRun == "" {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for _, n := range nodes {
		ok(t, n.Close())
	}
}

// TestRefused checks that configurations that cannot work are refused, with a way out.
func TestRefused(t *testing.T) {
	t.Parallel()
	for want, at := range map[string]pawlcluster.Node{
		"HOST:PORT":             {Listen: "nowhere", Secret: secret},
		"say with Node.Address": {Listen: ":0", Secret: secret},
		"Node.Address":          {Listen: "127.0.0.1:0", Address: "x", Secret: secret},
		"32 or more at random":  {Listen: "127.0.0.1:0", Secret: []byte("short")},
	} {
		_, err := pawl.Open(t.Context(), pawl.Config{Database: "memory:", Cluster: at})
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	server := pgtest.StartServer(t)
	address := server.DSN() + "&" + server.Lease()
	w := order()
	n := open(t, address, w)
	_, err := w.Start(t.Context(), n, "", 1) // it has partitions now
	ok(t, err)
	for within := 4 * time.Second; !errors.Is(err, pawl.ErrHeld) && within < 2*time.Minute; within *= 2 {
		short, cancel := context.WithTimeout(t.Context(), within) // a busy machine reads nothing for seconds
		_, err = pawl.Open(short, pawl.Config{Database: address, Log: slog.New(slog.DiscardHandler)})
		cancel()
	}
	if !errors.Is(err, pawl.ErrHeld) || !strings.Contains(err.Error(), "pawlcluster.Node") {
		t.Errorf("an engine that shares nothing: %v", err)
	}
	_, err = pawl.Open(t.Context(), pawl.Config{Database: address, Cluster: pawlcluster.Node{
		Listen: "127.0.0.1:0", Secret: []byte(strings.Repeat("o", 32)),
	}})
	if err == nil || !strings.Contains(err.Error(), "another secret") {
		t.Errorf("another secret: %v", err)
	}
	ok(t, n.Close())
}
