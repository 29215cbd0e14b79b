package outbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/outbox"
)

// relaying runs a relay until the test ends, or until stop is called.
func relaying(t testing.TB, box *outbox.Outbox, c pawl.Client) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = box.Relay(ctx, c)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// TestCommitted measures in virtual time how long a start takes after the commit: no time where the program says that
// it has committed, and up to the interval where it does not.
func TestCommitted(t *testing.T) {
	for name, c := range map[string]struct {
		says bool
		want time.Duration
	}{"told": {true, 0}, "not told": {false, time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := pawl.Define("one", func(pawl.Context, int) (int, error) { return 1, nil })
				client := &downAtFirst{Client: openEngine(t, pawl.Config{}, w), started: make(chan string)}
				s := openShop(t, outbox.Config{Every: time.Hour})
				stop := relaying(t, s.box, client)
				synctest.Wait() // the relay has looked once
				s.inTx(t, func(tx outbox.Tx) error { return outbox.StartIn(t.Context(), s.box, tx, w, "a", 1) })
				begin := time.Now()
				if c.says {
					s.box.Committed()
					s.box.Committed() // more than once does no harm
				}
				<-client.started
				if took := time.Since(begin); took != c.want {
					t.Errorf("the run began %s after the commit, want %s", took, c.want)
				}
				synctest.Wait()
				stop()
			})
		})
	}
}

// hangs is a client that never answers for one run.
type hangs struct {
	recorder
	run string
}

func (h *hangs) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	if r.ID == h.run {
		<-ctx.Done()
		return client.Started{}, ctx.Err()
	}
	return h.recorder.StartRun(ctx, r)
}

// TestOneThatHangsHoldsBackNoOthers checks that one message that hangs holds back the others for ten seconds at most.
func TestOneThatHangsHoldsBackNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t, outbox.Config{})
		w := pawl.Define("one", func(pawl.Context, int) (int, error) { return 1, nil })
		const others = 120 // more than a page
		s.inTx(t, func(tx outbox.Tx) error {
			err := outbox.StartIn(t.Context(), s.box, tx, w, "hangs", 1)
			for range others {
				if err == nil {
					err = outbox.StartIn(t.Context(), s.box, tx, w, "", 1)
				}
			}
			return err
		})
		client, begin := &hangs{run: "hangs"}, time.Now()
		err := s.box.RelayOnce(t.Context(), client)
		if took := time.Since(begin); err == nil || took != 10*time.Second {
			t.Errorf("the pass took %s, %v", took, err)
		}
		if len(client.starts) != others || s.waiting(t) != 1 {
			t.Errorf("%d were delivered and %d wait", len(client.starts), s.waiting(t))
		}
	})
}

// TestOtherDriversPoll checks that a driver that cannot listen is not asked to, and the relay looks at its interval.
func TestOtherDriversPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t, outbox.Config{})
		s.SetMaxOpenConns(2)
		box, err := outbox.New(s.DB, outbox.Config{Postgres: true, Every: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		client := &downAtFirst{Client: &recorder{}, started: make(chan string)}
		stop := relaying(t, box, client)
		synctest.Wait()
		begin := time.Now()
		start, _, _ := written(t)
		s.insert(t, "a", start)
		<-client.started
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("the run began %s after the commit, want a minute", took)
		}
		synctest.Wait()
		stop()
	})
}

// tellsOfEvents is a client that tells of each event it has delivered.
type tellsOfEvents struct {
	pawl.Client
	delivered chan string
}

func (c *tellsOfEvents) SendEvent(ctx context.Context, run string, e client.SendRequest) error {
	err := c.Client.SendEvent(ctx, run, e)
	c.delivered <- run + " " + e.Name
	return err
}

// testPostgresListens checks that PostgreSQL tells the relay of commits, also after its connection was lost, and a
// message that was committed meanwhile is found once it listens again. The relay looks once an hour otherwise.
func testPostgresListens(t *testing.T, dsn string) {
	b := openPgShop(t, dsn, outbox.Config{})
	e := openEngine(t, pawl.Config{}, purchase())
	name := strings.ToLower(rand.Text())
	db, box := listener(t, b, name, outbox.Config{Every: time.Hour})
	db.SetMaxOpenConns(2) // one to listen and one to deliver
	client := &tellsOfEvents{e, make(chan string, 1000)}
	stop := relaying(t, box, client)
	admin, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	var placed []int
	for n := range 8 {
		place := b.placePgx
		if n%2 == 0 {
			place = b.placeSQL
		}
		if n > 2 { // the connection is lost just before the commit or at the same time
			cut := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
			if _, err := admin.ExecContext(t.Context(), cut, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := place(t.Context(), n, true); err != nil {
			t.Fatal(err)
		}
		placed = append(placed, n)
		for last := fmt.Sprintf("order-%d shipped", n); <-client.delivered != last; {
		}
	}
	stop()
	if err := b.box.RelayOnce(t.Context(), e); err != nil { // rows that were delivered and not deleted
		t.Fatal(err)
	}
	b.checkPurchases(t, e, placed)
}

// testPostgresLastConnection checks that a pool of one connection is not used up by listening.
func testPostgresLastConnection(t *testing.T, dsn string) {
	b := openPgShop(t, dsn, outbox.Config{})
	e := openEngine(t, pawl.Config{}, purchase())
	db, box := listener(t, b, "one", outbox.Config{Every: time.Millisecond})
	db.SetMaxOpenConns(1)
	client := &tellsOfEvents{e, make(chan string, 1000)}
	relaying(t, box, client)
	if err := b.placeSQL(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	for <-client.delivered != "order-1 shipped" {
	}
}

// testPostgresReasons checks that a reason with characters that PostgreSQL does not store holds back nothing.
func testPostgresReasons(t *testing.T, dsn string) {
	b := openPgShop(t, dsn, outbox.Config{})
	e := openEngine(t, pawl.Config{}, purchase())
	if err := outbox.SendIn(t.Context(), b.box, outbox.SQLTx(b), "no\u2028body", "paid", 1); err != nil {
		t.Fatal(err)
	}
	if err := b.placeSQL(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	if err := b.box.RelayOnce(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := b.failures(t); len(got) != 1 || !strings.Contains(got[0], "no such run") || b.waiting(t) != 0 {
		t.Errorf("%q, and %d messages wait", got, b.waiting(t))
	}
}

// listener opens a second outbox on the shop's table, whose connections have that application_name.
func listener(t testing.TB, b *pgShop, name string, cfg outbox.Config) (*sql.DB, *outbox.Outbox) {
	t.Helper()
	pool, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool.ConnConfig.RuntimeParams["application_name"] = name
	db := stdlib.OpenDB(*pool.ConnConfig)
	t.Cleanup(func() { _ = db.Close() })
	cfg.Postgres = true
	box, err := outbox.New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return db, box
}

// startOnly is a client that tells when a run was started.
type startOnly struct {
	pawl.Client
	started chan struct{}
}

func (c *startOnly) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	s, err := c.Client.StartRun(ctx, r)
	c.started <- struct{}{}
	return s, err
}

// BenchmarkCommitToStart measures the time from the end of the caller's commit until the run's start is durable. The
// relay looks once an hour, and is told of each commit.
func BenchmarkCommitToStart(b *testing.B) {
	w := pawl.Define("one", func(pawl.Context, int) (int, error) { return 1, nil })
	measure := func(b *testing.B, db *sql.DB, box *outbox.Outbox, committed func()) {
		e := openEngine(b, pawl.Config{Database: "sqlite:" + filepath.Join(b.TempDir(), "pawl.db")}, w)
		client := &startOnly{e, make(chan struct{})}
		relaying(b, box, client)
		if committed == nil { // the first message may be found by the relay's first look: it listens afterwards
			committed = func() {}
		}
		var total time.Duration
		for n := range b.N + 1 {
			tx, err := db.BeginTx(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := outbox.StartIn(b.Context(), box, outbox.SQLTx(tx), w, "", n); err != nil {
				b.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
			begin := time.Now()
			committed()
			<-client.started
			if n > 0 {
				total += time.Since(begin)
			}
		}
		b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/start")
	}
	b.Run("sqlite", func(b *testing.B) {
		s := openShop(b, outbox.Config{Every: time.Hour})
		measure(b, s.DB, s.box, s.box.Committed)
	})
	b.Run("postgres", func(b *testing.B) {
		s := openPgShop(b, pgtest.Start(b), outbox.Config{Every: time.Hour})
		measure(b, s.DB, s.box, nil)
	})
}
