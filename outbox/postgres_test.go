package outbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	historyfile "github.com/pawl-dev/pawl/internal/history"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/outbox"
)

// pgShop is a schema of the caller's own in PostgreSQL, with an outbox in it, reached in both ways Go programs use.
type pgShop struct {
	shop
	dsn  string
	pool *pgxpool.Pool
}

func openPgShop(t testing.TB, dsn string, cfg outbox.Config) *pgShop {
	t.Helper()
	schema := "pawl_test_" + strings.ToLower(rand.Text())
	admin, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	if _, err := admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP SCHEMA "+schema+" CASCADE")
		if err != nil {
			t.Error(err)
		}
	})
	b := &pgShop{dsn: within(dsn, schema)}
	if b.pool, err = pgxpool.New(t.Context(), b.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	if b.DB, err = sql.Open("pgx", b.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	cfg.Postgres = true
	if b.box, err = outbox.New(b.DB, cfg); err != nil {
		t.Fatal(err)
	}
	if err := b.box.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ExecContext(t.Context(), "CREATE TABLE orders (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	return b
}

// within returns the DSN, in either of its two forms, of the schema.
func within(dsn, schema string) string {
	switch {
	case !strings.Contains(dsn, "://"):
		return dsn + " search_path=" + schema
	case strings.Contains(dsn, "?"):
		return dsn + "&search_path=" + schema
	default:
		return dsn + "?search_path=" + schema
	}
}

func (b *pgShop) count(t *testing.T, what string) (n int) {
	t.Helper()
	if err := b.QueryRowContext(t.Context(), "SELECT count(*) FROM "+what).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// placeSQL places an order in a transaction of database/sql.
func (b *pgShop) placeSQL(ctx context.Context, n int, commit bool) error {
	tx, err := b.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := placeOrder(ctx, b.box, outbox.SQLTx(tx), n); err != nil || !commit {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// placePgx places an order in a transaction of pgx itself.
func (b *pgShop) placePgx(ctx context.Context, n int, commit bool) error {
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := placeOrder(ctx, b.box, outbox.PgxTx(tx), n); err != nil || !commit {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

// checkPurchases checks that each order has one run, that each run had each event once, and that no message is left.
func (b *pgShop) checkPurchases(t *testing.T, e *pawl.Engine, orders []int) {
	t.Helper()
	runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "purchase", Limit: 1000})
	if err != nil || len(runs) != len(orders) || b.count(t, "orders") != len(orders) {
		t.Errorf("%d runs and %d rows of %d orders, %v", len(runs), b.count(t, "orders"), len(orders), err)
	}
	for _, n := range orders {
		id := fmt.Sprint("order-", n)
		if got, err := pawl.RunOf[string](e, id).Result(t.Context()); err != nil || got != fmt.Sprint(n, n, n) {
			t.Errorf("%s: %q, %v", id, got, err)
		}
		history, err := e.History(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := historyfile.Read(history)
		if err != nil {
			t.Fatal(err)
		}
		events := 0
		for _, entry := range entries {
			for _, rec := range entry.Records {
				if _, kept := rec.(core.SignalKept); kept {
					events++
				}
			}
		}
		if events != 2 {
			t.Errorf("%s had %d events, want 2", id, events)
		}
	}
	if n := b.count(t, "pawl_outbox"); n != 0 {
		var failure sql.NullString
		err := b.QueryRowContext(t.Context(), "SELECT failure FROM pawl_outbox ORDER BY seq LIMIT 1").Scan(&failure)
		t.Errorf("%d messages stayed, the first with %q, %v", n, failure.String, err)
	}
}

func TestPostgres(t *testing.T) {
	dsn := pgtest.Start(t)
	t.Run("database_sql", func(t *testing.T) { testPostgresOrders(t, dsn, (*pgShop).placeSQL) })
	t.Run("pgx", func(t *testing.T) { testPostgresOrders(t, dsn, (*pgShop).placePgx) })
	t.Run("connections_cut", func(t *testing.T) { testPostgresCutConnections(t, dsn) })
	t.Run("killed", func(t *testing.T) { testPostgresKilled(t, dsn) })
	t.Run("codec", func(t *testing.T) { testPostgresCodec(t, dsn) })
	t.Run("create", func(t *testing.T) { testPostgresCreate(t, dsn) })
	t.Run("listens", func(t *testing.T) { testPostgresListens(t, dsn) })
	t.Run("last_connection", func(t *testing.T) { testPostgresLastConnection(t, dsn) })
	t.Run("reasons", func(t *testing.T) { testPostgresReasons(t, dsn) })
}

// place places an order in a transaction that is committed or rolled back.
type place func(b *pgShop, ctx context.Context, n int, commit bool) error

// testPostgresOrders places orders, a third of them rolled back, and runs two relays whose answers get lost.
func testPostgresOrders(t *testing.T, dsn string, place place) {
	b := openPgShop(t, dsn, outbox.Config{})
	e := openEngine(t, pawl.Config{}, purchase())
	var kept []int
	for n := range 30 {
		commit := n%3 != 2
		if err := place(b, t.Context(), n, commit); err != nil {
			t.Fatal(err)
		}
		if commit {
			kept = append(kept, n)
		}
	}
	if n := b.count(t, "pawl_outbox"); n != 3*len(kept) {
		t.Errorf("%d messages of %d orders", n, len(kept))
	}
	done := make(chan error)
	for every := range 2 {
		go func() { done <- b.relayAll(t.Context(), &losesAnswers{Client: e, every: int64(3 + every)}) }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	b.checkPurchases(t, e, kept)
}

// cutsConnections is a client that ends the relay's connections once a message is delivered: deleting its row then
// fails.
type cutsConnections struct {
	pawl.Client
	admin *sql.DB
	name  string // application_name of the connections
	left  atomic.Int64
}

func (c *cutsConnections) cut(ctx context.Context) error {
	if c.left.Add(-1) < 0 {
		return nil
	}
	_, err := c.admin.ExecContext(ctx,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", c.name)
	return err
}

func (c *cutsConnections) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	got, err := c.Client.StartRun(ctx, r)
	return got, errors.Join(err, c.cut(ctx))
}

func (c *cutsConnections) SendEvent(ctx context.Context, id string, ev client.SendRequest) error {
	return errors.Join(c.Client.SendEvent(ctx, id, ev), c.cut(ctx))
}

func testPostgresCutConnections(t *testing.T, dsn string) {
	b := openPgShop(t, dsn, outbox.Config{})
	e := openEngine(t, pawl.Config{}, purchase())
	admin, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	name := strings.ToLower(rand.Text())
	cfg, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	relay := stdlib.OpenDB(*cfg.ConnConfig)
	defer func() { _ = relay.Close() }()
	o, err := outbox.New(relay, outbox.Config{Postgres: true})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		if err := b.placePgx(t.Context(), n, true); err != nil {
			t.Fatal(err)
		}
	}
	client := &cutsConnections{Client: e, admin: admin, name: name}
	client.left.Store(8)
	for b.waiting(t) > 0 {
		before := client.left.Load()
		if err := o.RelayOnce(t.Context(), client); err != nil && before <= 0 {
			t.Fatal(err) // nothing was cut
		}
	}
	if left := client.left.Load(); left > 0 {
		t.Errorf("%d cuts did not happen", left)
	}
	b.checkPurchases(t, e, []int{0, 1, 2, 3})
}

// These variables make the test binary a relay that is killed: where the outbox is, where the engine's database is,
// and after how many messages the process ends.
const (
	relayDSN = "PAWL_TEST_RELAY_DSN"
	relayDir = "PAWL_TEST_RELAY_DIR"
	relayFor = "PAWL_TEST_RELAY_FOR"
)

// killsItself is a client that ends its own process, by kill -9, once it has delivered some messages and before the
// row of the last one is deleted.
type killsItself struct {
	pawl.Client
	left atomic.Int64
}

func (k *killsItself) kill() error {
	if k.left.Add(-1) > 0 {
		return nil
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err == nil {
		select {} // the signal is on its way
	}
	return err
}

func (k *killsItself) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	got, err := k.Client.StartRun(ctx, r)
	return got, errors.Join(err, k.kill())
}

func (k *killsItself) SendEvent(ctx context.Context, id string, ev client.SendRequest) error {
	return errors.Join(k.Client.SendEvent(ctx, id, ev), k.kill())
}

// openRelayed opens the engine that survives its processes.
func openRelayed(ctx context.Context, dir string) (*pawl.Engine, error) {
	database := "sqlite:" + filepath.Join(dir, "pawl.db")
	return pawl.Open(ctx, pawl.Config{Database: database, Workflows: []pawl.Definition{purchase()}})
}

// TestRelayProcess tests nothing by itself: it is the process that testPostgresKilled kills.
func TestRelayProcess(t *testing.T) {
	if os.Getenv(relayDSN) == "" {
		return
	}
	db, err := sql.Open("pgx", os.Getenv(relayDSN))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	o, err := outbox.New(db, outbox.Config{Postgres: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := openRelayed(t.Context(), os.Getenv(relayDir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	left, err := strconv.ParseInt(os.Getenv(relayFor), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	client := &killsItself{Client: e}
	client.left.Store(left)
	if err := o.RelayOnce(t.Context(), client); err != nil {
		t.Fatal(err)
	}
}

func testPostgresKilled(t *testing.T, dsn string) {
	b := openPgShop(t, dsn, outbox.Config{})
	for n := range 3 {
		if err := b.placeSQL(t.Context(), n, true); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	kills := 0
	for b.waiting(t) > 0 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRelayProcess$")
		messages := strconv.Itoa(3 + kills) // further each time
		cmd.Env = append(os.Environ(), relayDSN+"="+b.dsn, relayDir+"="+dir, relayFor+"="+messages)
		out, err := cmd.CombinedOutput()
		if err == nil {
			continue
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the relay failed by itself: %v\n%s", err, out)
		}
		kills++
	}
	if kills < 3 {
		t.Errorf("%d relays were killed, want several", kills)
	}
	e, err := openRelayed(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	b.checkPurchases(t, e, []int{0, 1, 2})
}

// base64Codec makes a JSON string that shows nothing of the value, as a codec that encrypts does.
type base64Codec struct{}

func (base64Codec) Encode(_ context.Context, _ *pawl.Payload, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}

func (base64Codec) Decode(_ context.Context, _ pawl.Payload, data []byte, v any) error {
	var plain []byte
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

// testPostgresCodec sends what is hard to keep in a column of text, with each codec.
func testPostgresCodec(t *testing.T, dsn string) {
	const hard = "a\tb \u2028 \U0001f980 '; DROP TABLE orders; -- $1 ? \\ \"quoted\""
	for name, codec := range map[string]pawl.Codec{"json": pawl.JSON{}, "base64": base64Codec{}} {
		t.Run(name, func(t *testing.T) {
			b := openPgShop(t, dsn, outbox.Config{Codec: codec})
			w := pawl.Define("echo", func(ctx pawl.Context, in string) (string, error) {
				more, err := pawl.Event[string]("more").Wait(ctx)
				return in + more, err
			})
			e := openEngine(t, pawl.Config{Codec: codec}, w)
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = outbox.StartIn(t.Context(), b.box, outbox.PgxTx(tx), w, hard, hard)
			err = errors.Join(err, outbox.SendIn(t.Context(), b.box, outbox.PgxTx(tx), hard, "more", hard))
			if err := errors.Join(err, tx.Commit(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := b.box.RelayOnce(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if n := b.count(t, "pawl_outbox"); n != 0 {
				t.Fatalf("%d messages stayed", n)
			}
			if got, err := pawl.RunOf[string](e, hard).Result(t.Context()); err != nil || got != hard+hard {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// testPostgresCreate makes the table again, then makes new tables, each from many connections at once.
func testPostgresCreate(t *testing.T, dsn string) {
	b := openPgShop(t, dsn, outbox.Config{})
	if err := b.placeSQL(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	if err := b.box.Create(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	if n := b.count(t, "pawl_outbox"); n != 3 {
		t.Errorf("%d messages after the table was made again, want 3", n)
	}
	const tables, at = 10, 8
	for n := range tables {
		o, err := outbox.New(b.DB, outbox.Config{Postgres: true, Table: fmt.Sprint("outbox_", n)})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		for range at {
			go func() { done <- o.Create(t.Context()) }()
		}
		for range at {
			if err := <-done; err != nil {
				t.Errorf("table %d: %v", n, err)
			}
		}
	}
}
