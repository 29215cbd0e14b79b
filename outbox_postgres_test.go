package pawl_test

import (
	"context"
	"crypto/rand"
	"database/sql"
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
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/journal/memory"
)

// bazaar is a schema of the caller's own in PostgreSQL, with an outbox in it, reached in both ways Go programs use.
type bazaar struct {
	dsn    string
	pool   *pgxpool.Pool
	db     *sql.DB
	outbox *pawl.Outbox
}

func openBazaar(t *testing.T, dsn string, cfg pawl.OutboxConfig) *bazaar {
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
		if _, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	b := &bazaar{dsn: within(dsn, schema)}
	if b.pool, err = pgxpool.New(t.Context(), b.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	if b.db, err = sql.Open("pgx", b.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.db.Close() })
	cfg.Dialect = pawl.Postgres
	if b.outbox, err = pawl.NewOutbox(b.db, cfg); err != nil {
		t.Fatal(err)
	}
	if err := b.outbox.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.ExecContext(t.Context(), "CREATE TABLE orders (id TEXT)"); err != nil {
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

func (b *bazaar) count(t *testing.T, what string) (n int) {
	t.Helper()
	if err := b.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+what).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// purchase is a workflow that ends with its second event: what repeats that one finds a run that is over.
func purchase() *pawl.Workflow[int, string] {
	return pawl.Define("purchase", func(ctx pawl.Context, n int) (string, error) {
		a, err := pawl.WaitEvent[int](ctx, "paid")
		if err != nil {
			return "", err
		}
		b, err := pawl.WaitEvent[int](ctx, "shipped")
		return fmt.Sprint(n, a, b), err
	})
}

// placeOrder writes an order, its run and its events through the transaction.
func placeOrder(ctx context.Context, o *pawl.Outbox, tx pawl.Tx, n int) error {
	id := fmt.Sprint("order-", n)
	err := tx(ctx, "INSERT INTO orders VALUES ($1)", id)
	err = errors.Join(err, pawl.StartIn(ctx, o, tx, purchase(), id, n))
	for _, event := range []string{"paid", "shipped"} {
		err = errors.Join(err, pawl.SendIn(ctx, o, tx, id, event, n))
	}
	return err
}

// placeSQL places an order in a transaction of database/sql.
func (b *bazaar) placeSQL(ctx context.Context, n int, commit bool) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := placeOrder(ctx, b.outbox, pawl.SQLTx(tx), n); err != nil || !commit {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// placePgx places an order in a transaction of pgx itself.
func (b *bazaar) placePgx(ctx context.Context, n int, commit bool) error {
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := placeOrder(ctx, b.outbox, pawl.PgxTx(tx), n); err != nil || !commit {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

// drain relays until nothing is left. What gets lost on the way is tried again.
func (b *bazaar) drain(ctx context.Context, c pawl.Client) error {
	for {
		err := b.outbox.RelayOnce(ctx, c)
		if err != nil && !errors.Is(err, errCut) {
			return err
		}
		var left int
		if err := b.db.QueryRowContext(ctx, "SELECT count(*) FROM pawl_outbox WHERE failure IS NULL").Scan(&left); err != nil || left == 0 {
			return err
		}
	}
}

// checkPurchases asks that each order has one run, which had each event once, and that nothing was given up.
func (b *bazaar) checkPurchases(t *testing.T, e *pawl.Engine, orders []int) {
	t.Helper()
	runs, err := e.ListRuns(t.Context(), pawl.Query{Workflow: "purchase", Limit: 1000})
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
		events := 0
		for _, entry := range history {
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
		err := b.db.QueryRowContext(t.Context(), "SELECT failure FROM pawl_outbox ORDER BY seq LIMIT 1").Scan(&failure)
		t.Errorf("%d messages stayed, the first with %q, %v", n, failure.String, err)
	}
}

func openPurchases(t *testing.T) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{purchase()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestOutboxPostgres(t *testing.T) {
	dsn := pgtest.Start(t)
	t.Run("database_sql", func(t *testing.T) { testBazaarOrders(t, dsn, (*bazaar).placeSQL) })
	t.Run("pgx", func(t *testing.T) { testBazaarOrders(t, dsn, (*bazaar).placePgx) })
	t.Run("connections_cut", func(t *testing.T) { testBazaarSevered(t, dsn) })
	t.Run("killed", func(t *testing.T) { testBazaarKilled(t, dsn) })
	t.Run("codec", func(t *testing.T) { testBazaarCodec(t, dsn) })
	t.Run("create", func(t *testing.T) { testBazaarCreate(t, dsn) })
}

// testBazaarOrders places orders, a third of them rolled back, and lets two relays whose answers get lost hand them over.
func testBazaarOrders(t *testing.T, dsn string, place func(b *bazaar, ctx context.Context, n int, commit bool) error) {
	b := openBazaar(t, dsn, pawl.OutboxConfig{})
	e := openPurchases(t)
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
		go func() { done <- b.drain(t.Context(), &cut{Client: e, every: int64(3 + every)}) }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	b.checkPurchases(t, e, kept)
}

// severed ends the relay's connections once a message is delivered, so that striking it out meets a dead one.
type severed struct {
	pawl.Client
	admin *sql.DB
	name  string // application_name of the connections
	left  atomic.Int64
}

func (s *severed) sever(ctx context.Context) error {
	if s.left.Add(-1) < 0 {
		return nil
	}
	_, err := s.admin.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", s.name)
	return err
}

func (s *severed) StartRun(ctx context.Context, r pawl.StartRequest) (pawl.Started, error) {
	got, err := s.Client.StartRun(ctx, r)
	return got, errors.Join(err, s.sever(ctx))
}

func (s *severed) SendEvent(ctx context.Context, id string, ev pawl.Event) error {
	return errors.Join(s.Client.SendEvent(ctx, id, ev), s.sever(ctx))
}

func testBazaarSevered(t *testing.T, dsn string) {
	b := openBazaar(t, dsn, pawl.OutboxConfig{})
	e := openPurchases(t)
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
	o, err := pawl.NewOutbox(relay, pawl.OutboxConfig{Dialect: pawl.Postgres})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		if err := b.placePgx(t.Context(), n, true); err != nil {
			t.Fatal(err)
		}
	}
	client := &severed{Client: e, admin: admin, name: name}
	client.left.Store(8)
	for b.count(t, "pawl_outbox WHERE failure IS NULL") > 0 {
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

// relayDSN and relayDir make the test binary a relay that is killed: where the outbox is, where the engine's
// database, and after how many messages it ends.
const (
	relayDSN = "PAWL_TEST_RELAY_DSN"
	relayDir = "PAWL_TEST_RELAY_DIR"
	relayFor = "PAWL_TEST_RELAY_FOR"
)

// killed is a client whose process ends, by kill -9, once it has delivered some messages and before the last is struck out.
type killed struct {
	pawl.Client
	left atomic.Int64
}

func (k *killed) shot() error {
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

func (k *killed) StartRun(ctx context.Context, r pawl.StartRequest) (pawl.Started, error) {
	got, err := k.Client.StartRun(ctx, r)
	return got, errors.Join(err, k.shot())
}

func (k *killed) SendEvent(ctx context.Context, id string, ev pawl.Event) error {
	return errors.Join(k.Client.SendEvent(ctx, id, ev), k.shot())
}

// openRelayed opens the engine that survives its processes.
func openRelayed(ctx context.Context, dir string) (*pawl.Engine, error) {
	return pawl.Open(ctx, pawl.Config{Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{purchase()}})
}

// TestRelayProcess is no test but the process that testBazaarKilled kills.
func TestRelayProcess(t *testing.T) {
	if os.Getenv(relayDSN) == "" {
		return
	}
	db, err := sql.Open("pgx", os.Getenv(relayDSN))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	o, err := pawl.NewOutbox(db, pawl.OutboxConfig{Dialect: pawl.Postgres})
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
	client := &killed{Client: e}
	client.left.Store(left)
	if err := o.RelayOnce(t.Context(), client); err != nil {
		t.Fatal(err)
	}
}

func testBazaarKilled(t *testing.T, dsn string) {
	b := openBazaar(t, dsn, pawl.OutboxConfig{})
	for n := range 3 {
		if err := b.placeSQL(t.Context(), n, true); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	kills := 0
	for b.count(t, "pawl_outbox WHERE failure IS NULL") > 0 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRelayProcess$")
		cmd.Env = append(os.Environ(), relayDSN+"="+b.dsn, relayDir+"="+dir, relayFor+"="+strconv.Itoa(3+kills)) // further each time
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

// testBazaarCodec sends what is hard to keep in a column of text, in the clear and encrypted.
func testBazaarCodec(t *testing.T, dsn string) {
	const hard = "a\x00b \u2028 \U0001f980 '; DROP TABLE orders; -- $1 ? \\ \"quoted\""
	secret, err := newSealed([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	for name, codec := range map[string]pawl.Codec{"json": pawl.JSON{}, "sealed": secret} {
		t.Run(name, func(t *testing.T) {
			b := openBazaar(t, dsn, pawl.OutboxConfig{Codec: codec})
			w := pawl.Define("echo", func(ctx pawl.Context, in string) (string, error) {
				more, err := pawl.WaitEvent[string](ctx, "more")
				return in + more, err
			})
			e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Codec: codec, Workflows: []pawl.Definition{w}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = pawl.StartIn(t.Context(), b.outbox, pawl.PgxTx(tx), w, hard, hard)
			err = errors.Join(err, pawl.SendIn(t.Context(), b.outbox, pawl.PgxTx(tx), hard, "more", hard), tx.Commit(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.outbox.RelayOnce(t.Context(), e); err != nil {
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

// testBazaarCreate makes the table again, and from several processes' points of view at once where there is none.
func testBazaarCreate(t *testing.T, dsn string) {
	b := openBazaar(t, dsn, pawl.OutboxConfig{})
	if err := b.placeSQL(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	if err := b.outbox.Create(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	if n := b.count(t, "pawl_outbox"); n != 3 {
		t.Errorf("%d messages after the table was made again, want 3", n)
	}
	const tables, at = 10, 8
	for n := range tables {
		o, err := pawl.NewOutbox(b.db, pawl.OutboxConfig{Dialect: pawl.Postgres, Table: fmt.Sprint("outbox_", n)})
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
