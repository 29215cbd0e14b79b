package outbox_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	_ "github.com/pawl-dev/pawl/journal/postgres" // the journal of the engines whose own outbox is tested
	"github.com/pawl-dev/pawl/outbox"
)

// openInside opens a shop and, in the same schema, an engine whose own outbox the shop uses.
func openInside(t *testing.T, dsn string) (*pgShop, *pawl.Engine) {
	t.Helper()
	b := openPgShop(t, dsn, outbox.Config{})
	e, err := b.openEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	b.useOutboxOf(t, e)
	return b, e
}

// untilEnded returns when an order's run, which may not be started yet, has ended.
func untilEnded(ctx context.Context, e *pawl.Engine, n int) error {
	for {
		_, err := pawl.RunOf[string](e, fmt.Sprint("order-", n)).Result(ctx)
		if !errors.Is(err, pawl.ErrNotFound) {
			return err
		}
	}
}

// openEngine opens an engine with its runs in the shop's schema. The lease of a process that is killed ends soon, those
// of others not while their tests run.
func (b *pgShop) openEngine(ctx context.Context) (*pawl.Engine, error) {
	lease := cmp.Or(os.Getenv(insideLease), "lease=20s")
	return pawl.Open(ctx, pawl.Config{
		Database: b.dsn + "&" + lease, Workflows: []pawl.Definition{purchase()},
		Propagators: []pawl.Propagator{tenants{}},
	})
}

func (b *pgShop) useOutboxOf(t *testing.T, e *pawl.Engine) {
	t.Helper()
	var err error
	if b.box, err = outbox.Of(e); err != nil {
		t.Fatal(err)
	}
}

// untilDelivered returns when the engine's own outbox is empty.
func (b *pgShop) untilDelivered(t *testing.T) {
	t.Helper()
	for b.count(t, "outbox") > 0 {
	}
}

func TestInside(t *testing.T) {
	dsn := pgtest.Start(t)
	t.Run("database_sql", func(t *testing.T) { testInsideOrders(t, dsn, (*pgShop).placeSQL) })
	t.Run("pgx", func(t *testing.T) { testInsideOrders(t, dsn, (*pgShop).placePgx) })
	t.Run("rolled_back", func(t *testing.T) { testInsideRolledBack(t, dsn) })
	t.Run("two_engines", func(t *testing.T) { testInsideTwoEngines(t, dsn) })
	t.Run("two_relays", func(t *testing.T) { testInsideTwoRelays(t, dsn) })
	t.Run("killed", func(t *testing.T) { testInsideKilled(t, dsn) })
	t.Run("elsewhere", func(t *testing.T) { testInsideElsewhere(t, dsn) })
	t.Run("no_engine", func(t *testing.T) { testInsideNoEngine(t, dsn) })
	t.Run("headers", func(t *testing.T) { testInsideHeaders(t, dsn) })
	t.Run("no_rights", func(t *testing.T) { testInsideNoRights(t, dsn) })
}

// testInsideOrders places orders, a third of them rolled back. Nothing is created and nobody relays.
func testInsideOrders(t *testing.T, dsn string, place place) {
	b, e := openInside(t, dsn)
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
	b.untilDelivered(t)
	b.checkPurchases(t, e, kept)
}

// testInsideRolledBack checks that messages of a transaction that was rolled back never take effect, also beside others
// that commit.
func testInsideRolledBack(t *testing.T, dsn string) {
	b, e := openInside(t, dsn)
	tx, err := b.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := placeOrder(t.Context(), b.box, outbox.SQLTx(tx), 1); err != nil {
		t.Fatal(err)
	}
	if err := b.placeSQL(t.Context(), 2, true); err != nil {
		t.Fatal(err)
	}
	b.untilDelivered(t)
	if _, err := e.DescribeRun(t.Context(), "order-1"); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("the transaction is still open: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := b.placeSQL(t.Context(), 3, true); err != nil {
		t.Fatal(err)
	}
	b.untilDelivered(t)
	b.checkPurchases(t, e, []int{2, 3})
}

// testInsideTwoEngines checks that while orders come, one engine closes and another one, which has waited, goes on.
func testInsideTwoEngines(t *testing.T, dsn string) {
	b, first := openInside(t, dsn)
	type opened struct {
		e   *pawl.Engine
		err error
	}
	second := make(chan opened)
	go func() {
		e, err := b.openEngine(t.Context())
		second <- opened{e, err}
	}()
	placed := make(chan error)
	var orders []int
	const half, all = 10, 20
	for n := range all {
		orders = append(orders, n)
	}
	go func() {
		for _, n := range orders[:half] {
			placed <- b.placePgx(t.Context(), n, true)
		}
		for _, n := range orders[half:] {
			placed <- b.placeSQL(t.Context(), n, true)
		}
	}()
	for n := range all {
		if n == half {
			if err := first.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-placed; err != nil {
			t.Error(err)
		}
	}
	got := <-second
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer func() { _ = got.e.Close() }()
	b.untilDelivered(t)
	b.checkPurchases(t, got.e, orders)
}

// testInsideTwoRelays checks that a second relay, as of an engine that was replaced and does not know it yet, delivers
// what the engine delivers.
func testInsideTwoRelays(t *testing.T, dsn string) {
	b, e := openInside(t, dsn)
	other, err := outbox.New(b.DB, outbox.Config{Postgres: true, Table: "outbox"})
	if err != nil {
		t.Fatal(err)
	}
	var orders []int
	for n := range 20 {
		orders = append(orders, n)
		if err := b.placePgx(t.Context(), n, true); err != nil {
			t.Fatal(err)
		}
		if err := other.RelayOnce(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	b.untilDelivered(t)
	b.checkPurchases(t, e, orders)
}

// These variables make the test binary a shop with an engine that kills itself once it has placed orders: where its
// database is, which order comes first, what holds back the delivery, and for how long it owns the partition.
const (
	insideAt    = "PAWL_TEST_INSIDE_DSN"
	insideFrom  = "PAWL_TEST_INSIDE_FROM"
	insideUntil = "PAWL_TEST_INSIDE_UNTIL"
	insideLease = "PAWL_TEST_INSIDE_LEASE"

	beforeDelivery = "before" // nothing can be appended to the journal: the process dies before a run is started
	afterDelivery  = "after"  // no message can be deleted: it dies when all are delivered
	atCommit       = "commit" // it dies with the last commit

	insideOrders = 3
)

// TestInsideProcess tests nothing by itself: it is the process that testInsideKilled lets kill itself.
func TestInsideProcess(t *testing.T) {
	if os.Getenv(insideAt) == "" {
		return
	}
	b := &pgShop{dsn: os.Getenv(insideAt)}
	var err error
	if b.pool, err = pgxpool.New(t.Context(), b.dsn); err != nil {
		t.Fatal(err)
	}
	e, err := b.openEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.useOutboxOf(t, e)
	from, err := strconv.Atoi(os.Getenv(insideFrom))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(insideUntil) == beforeDelivery {
		lock, err := b.pool.Begin(t.Context())
		if err == nil {
			_, err = lock.Exec(t.Context(), "LOCK TABLE journal IN EXCLUSIVE MODE")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := from; n < from+insideOrders; n++ {
		if err := b.placePgx(t.Context(), n, true); err != nil {
			t.Fatal(err)
		}
		if os.Getenv(insideUntil) != afterDelivery {
			continue
		}
		if err := untilEnded(t.Context(), e, n); err != nil {
			t.Fatal(err)
		}
	}
	k := killsItself{}
	if err := k.kill(); err != nil {
		t.Fatal(err)
	}
}

// testInsideKilled kills programs between commit and delivery, between delivery and the end of the message, and
// somewhere there. Each is followed by another one, and at last by an engine that finds every order once.
func testInsideKilled(t *testing.T, dsn string) {
	b, e := openInside(t, dsn)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	execute := func(statement string) {
		t.Helper()
		if _, err := b.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS " +
		"$$ BEGIN RAISE EXCEPTION 'nothing is deleted now'; END $$")
	var orders []int
	for _, until := range []string{beforeDelivery, afterDelivery, atCommit, afterDelivery, beforeDelivery, atCommit} {
		if until == afterDelivery {
			execute("CREATE TRIGGER refuse BEFORE DELETE ON outbox EXECUTE FUNCTION refuse()")
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestInsideProcess$")
		cmd.Env = append(os.Environ(), insideAt+"="+b.dsn, insideFrom+"="+strconv.Itoa(len(orders)),
			insideUntil+"="+until, insideLease+"="+pgtest.Lease())
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the program was not killed: %v\n%s", err, out)
		}
		if n := b.count(t, "outbox"); until != atCommit && n < insideOrders*3 {
			t.Errorf("%s: %d messages are left, want those of all orders at least", until, n)
		}
		if until == afterDelivery {
			execute("DROP TRIGGER refuse ON outbox")
		}
		for range insideOrders {
			orders = append(orders, len(orders))
		}
	}
	e, err := b.openEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	b.untilDelivered(t)
	b.checkPurchases(t, e, orders)
}

// otherDatabase makes another database on the server, with a schema of the shop's name.
func (b *pgShop) otherDatabase(t *testing.T) *pgShop {
	t.Helper()
	name := "pawl_test_" + strings.ToLower(rand.Text())
	if _, err := b.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	other := &pgShop{dsn: u.String()}
	if other.pool, err = pgxpool.New(t.Context(), other.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		other.pool.Close()
		_, err := b.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		if err != nil {
			t.Error(err)
		}
	})
	return other
}

// testInsideElsewhere checks that a transaction on another database is refused with a reason, and cannot be committed.
func testInsideElsewhere(t *testing.T, dsn string) {
	b, _ := openInside(t, dsn)
	other := b.otherDatabase(t)
	refuses := func(what, reason string) {
		t.Helper()
		tx, err := other.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = outbox.StartIn(t.Context(), b.box, outbox.PgxTx(tx), purchase(), "order-1", 1)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), reason) ||
			!strings.Contains(err.Error(), "is not on the database that has the engine's journal") {
			t.Errorf("%s: %v, want %q", what, err, reason)
		}
		if err := tx.Commit(t.Context()); err == nil {
			t.Errorf("%s: the transaction was committed", what)
		}
	}
	refuses("a database without tables of Pawl's", "does not exist")
	e, err := other.openEngine(t.Context()) // its schema has the same name
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	refuses("the database of another engine", "the_transaction_is_not_on_the_database_of_the_engine")
	if _, err := outbox.Of(openEngine(t, pawl.Config{}, purchase())); !errors.Is(err, pawl.ErrInvalid) ||
		!strings.Contains(err.Error(), "its journal is not in PostgreSQL") {
		t.Errorf("of an engine in memory: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := outbox.Of(e); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("of a closed engine: %v", err)
	}
}

// testInsideNoEngine checks that a process without an engine writes, and is heard.
func testInsideNoEngine(t *testing.T, dsn string) {
	b, e := openInside(t, dsn)
	var schema string
	if err := b.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	var err error
	b.box, err = outbox.New(b.DB, outbox.Config{Postgres: true, Table: schema + ".outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.placeSQL(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	b.untilDelivered(t)
	b.checkPurchases(t, e, []int{1})
}

// testInsideHeaders checks that values in the context of the transaction go along with the run, by the engine's
// propagators.
func testInsideHeaders(t *testing.T, dsn string) {
	b, e := openInside(t, dsn)
	if err := b.placeSQL(context.WithValue(t.Context(), tenantKey{}, "acme"), 1, true); err != nil {
		t.Fatal(err)
	}
	b.untilDelivered(t)
	if d, err := e.DescribeRun(t.Context(), "order-1"); err != nil || d.Headers["tenant"] != "acme" {
		t.Errorf("headers %v, %v", d.Headers, err)
	}
}

// testInsideNoRights checks that the user of a transaction needs as little as the documentation says, and is told of
// what is missing.
func testInsideNoRights(t *testing.T, dsn string) {
	b, e := openInside(t, dsn)
	user := "pawl_test_" + strings.ToLower(rand.Text())
	var schema string
	if err := b.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	start := func(id string) error {
		tx, err := b.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.ExecContext(t.Context(), "SET LOCAL ROLE "+user)
		if err == nil {
			err = outbox.StartIn(t.Context(), b.box, outbox.SQLTx(tx), purchase(), id, 1)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
	execute := func(statement string) {
		t.Helper()
		if _, err := b.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	execute("CREATE ROLE " + user)
	defer execute("DROP OWNED BY " + user + "; DROP ROLE " + user)
	if err := start("a"); err == nil || !strings.Contains(err.Error(), "grant the transaction's user USAGE") {
		t.Errorf("without rights: %v", err)
	}
	execute("GRANT USAGE ON SCHEMA " + schema + " TO " + user + "; GRANT INSERT ON " + schema + ".outbox TO " + user)
	if err := start("a"); err != nil {
		t.Errorf("with the rights that are needed: %v", err)
	}
	b.untilDelivered(t)
	if _, err := e.DescribeRun(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}
