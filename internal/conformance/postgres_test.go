package conformance

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestConformanceOnPostgres runs the Go rows again, on PostgreSQL.
func TestConformanceOnPostgres(t *testing.T) {
	server := unsynced(t) // a server of its own: the schemas stay until it is removed
	var schemas atomic.Int64
	before := goDatabase
	t.Cleanup(func() { goDatabase = before })
	goDatabase = func(*testing.T) string {
		// Time is virtual here and the leases are of the server's time, so they are longer than any test takes.
		return within(server, "schema=row_"+strconv.FormatInt(schemas.Add(1), 10)+"&lease=100000h")
	}
	eachGoRow(t)
}

// TestConformanceOverTwoStores runs them once more, with half of the partitions on another PostgreSQL server.
func TestConformanceOverTwoStores(t *testing.T) {
	nightly.Only(t, "two servers share the partitions of each row")
	first := unsynced(t)
	second, err := url.Parse(unsynced(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := second.User.Password()
	t.Setenv("PAWL_STORE_B_PASSWORD", password)
	second.User = url.User(second.User.Username())
	var schemas atomic.Int64
	before := goDatabase
	t.Cleanup(func() { goDatabase = before })
	goDatabase = func(t *testing.T) string {
		t.Helper()
		schema := "schema=row_" + strconv.FormatInt(schemas.Add(1), 10)
		address := within(first, schema+"&lease=100000h&partitions=4")
		j, err := postgres.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		nodes, _ := j.(cluster.Shareable).Nodes()
		o := share.Operator{Storage: nodes}
		err = o.AddStore(t.Context(), api.StoreAdd{Name: "b", Address: within(second.String(), schema)})
		for _, p := range []int{0, 3} {
			if err == nil {
				err = o.MoveToStore(t.Context(), api.StoreMove{Partition: p, Store: "b"})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
	eachGoRow(t)
}

// unsynced starts a server that does not wait for its disk, because no row ends it, and returns its DSN.
func unsynced(t *testing.T) string { return pgtest.StartServer(t, "-c", "fsync=off").DSN() }

func within(dsn, parameters string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + parameters
	}
	return dsn + "?" + parameters
}

// racer is one of several programs that want to carry on the runs of one database.
type racer struct {
	name    int
	address string
	proxy   *pgtest.Proxy
	w       *pawl.Workflow[nothing, int]
	ended   chan error // the ends of all engines that had the database
}

// pending is an attempt of a step that waits until the test lets it succeed.
type pending struct {
	racer   int
	succeed chan struct{}
}

func newRacer(t *testing.T, name int, server string, begun chan<- pending) *racer {
	r := &racer{name: name, proxy: pgtest.NewProxy(t, server), ended: make(chan error, 100)}
	r.address = within(r.proxy.DSN(), "partitions=1&lease=1s&statement_timeout=1s")
	work := func(ctx context.Context) error {
		p := pending{name, make(chan struct{})}
		select {
		case begun <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-p.succeed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.w = pawl.Define("race", func(ctx pawl.Context, _ nothing) (done int, err error) {
		for done < raceSteps && err == nil {
			err = pawl.Do(ctx, "work", work)
			done++
		}
		return done, err
	})
	return r
}

// race opens the database again and again and carries on its run while it is the owner. When the run has ended here, it
// calls over.
func (r *racer) race(ctx context.Context, over func()) {
	for ctx.Err() == nil {
		cfg := pawl.Config{Database: r.address, Workflows: []pawl.Definition{r.w}, Grace: 10 * time.Millisecond}
		e, err := pawl.Open(ctx, cfg)
		if err != nil {
			continue // somebody else owns it, or the network is down
		}
		out := 0
		if _, err = r.w.Start(ctx, e, "race", nothing{}); err == nil || errors.Is(err, pawl.ErrConflict) {
			out, err = pawl.RunOf[int](e, "race").Result(ctx)
		}
		if err == nil && out == raceSteps {
			over()
		}
		_ = e.Close() // it may say that it lost the partition
		r.ended <- err
	}
}

const raceSteps = 4

// TestThreeEnginesRace shows row A10 on a server: three programs want the same database, and whoever owns it is cut
// off from it, again and again. One at a time writes. Who was replaced writes nothing more, although he can reach the
// database again, and the run ends once.
func TestThreeEnginesRace(t *testing.T) {
	nightly.Only(t, "leases of a second pass, on a database server of its own")
	server := pgtest.StartServer(t).DSN()
	begun := make(chan pending)
	ctx, over := context.WithTimeout(t.Context(), 2*time.Minute)
	defer over()
	racers := make([]*racer, 3)
	var all sync.WaitGroup
	for n := range racers {
		racers[n] = newRacer(t, n, server, begun)
		all.Go(func() { racers[n].race(ctx, over) })
	}
	next := func() pending {
		t.Helper()
		select {
		case p := <-begun:
			return p
		case <-ctx.Done():
			t.Fatal("no engine goes on")
			return pending{}
		}
	}
	for range raceSteps - 1 {
		old := next()
		racers[old.racer].proxy.Hold()
		young := next() // the same step: the lease has ended
		if young.racer == old.racer {
			t.Fatalf("engine %d goes on without its database", old.racer)
		}
		close(old.succeed)
		racers[old.racer].proxy.Release()
		if err := <-racers[old.racer].ended; err == nil {
			t.Errorf("engine %d was replaced, and says that the run has ended", old.racer)
		}
		close(young.succeed)
	}
	close(next().succeed)
	all.Wait()
	if t.Context().Err() != nil || ctx.Err() != context.Canceled {
		t.Fatalf("the run has not ended: %v", ctx.Err())
	}
	endedOnce(t, server)
}

// endedOnce expects one run with one end, each of whose steps succeeded once.
func endedOnce(t *testing.T, server string) {
	t.Helper()
	j, err := postgres.OpenReadOnly(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	runs, ends, succeeded := 0, 0, map[core.StepID]int{}
	err = j.EachRun(t.Context(), func(r journal.Stored) error {
		runs++
		for _, e := range r.History.Entries {
			for _, rec := range e.Records {
				if _, ok := rec.(core.RunEnded); ok {
					ends++
				}
			}
		}
		for _, a := range r.Attempts {
			if a.Outcome == "succeeded" {
				succeeded[a.Step]++
			}
		}
		return r.Broken
	})
	if err != nil || runs != 1 || ends != 1 || len(succeeded) != raceSteps {
		t.Errorf("%d runs with %d ends, %d steps succeeded: %v", runs, ends, len(succeeded), err)
	}
	for step, n := range succeeded {
		if n != 1 {
			t.Errorf("step %d succeeded %d times", step, n)
		}
	}
}
