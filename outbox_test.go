package pawl_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite" // the caller's own database

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/memory"
)

// shop opens a database of the caller's own, with an outbox in it.
func shop(t testing.TB) (*sql.DB, *pawl.Outbox) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	o, err := pawl.NewOutbox(db, pawl.OutboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	return db, o
}

var errCut = errors.New("the connection was cut")

// cut is a client whose answers get lost: what it was asked has happened.
type cut struct {
	pawl.Client
	every int64
	calls atomic.Int64
}

func (c *cut) lost() error {
	if c.calls.Add(1)%c.every == 0 {
		return errCut
	}
	return nil
}

func (c *cut) StartRun(ctx context.Context, r pawl.StartRequest) (pawl.Started, error) {
	s, err := c.Client.StartRun(ctx, r)
	return s, errors.Join(err, c.lost())
}

func (c *cut) SendEvent(ctx context.Context, id string, e pawl.Event) error {
	return errors.Join(c.Client.SendEvent(ctx, id, e), c.lost())
}

func TestOutboxRelaysExactlyOnce(t *testing.T) {
	w := pawl.Define("order", func(ctx pawl.Context, n int) (string, error) {
		a, err := pawl.WaitEvent[int](ctx, "paid")
		if err != nil {
			return "", err
		}
		b, err := pawl.WaitEvent[int](ctx, "shipped")
		return fmt.Sprint(n, a, b), err
	})
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	db, o := shop(t)
	const orders = 30
	for i := range orders {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("order-", i)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO orders VALUES (?)", id)
		err = errors.Join(err, pawl.StartIn(t.Context(), o, pawl.SQLTx(tx), w, id, i))
		for _, event := range []string{"paid", "shipped"} {
			err = errors.Join(err, pawl.SendIn(t.Context(), o, pawl.SQLTx(tx), id, event, i))
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			err = tx.Rollback() // neither the row nor the run
		} else {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	client := &cut{Client: e, every: 4}
	for left := true; left; {
		err := o.RelayOnce(t.Context(), client)
		if err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pawl_outbox WHERE failure IS NULL").Scan(&n); err != nil {
			t.Fatal(err)
		}
		left = n > 0
	}
	runs, err := e.ListRuns(t.Context(), pawl.Query{Workflow: "order", Limit: 100})
	if err != nil || len(runs) != orders*2/3 {
		t.Fatalf("%d runs of %d orders, %v", len(runs), orders*2/3, err)
	}
	for i := range orders {
		if i%3 == 2 {
			continue
		}
		if got, err := pawl.RunOf[string](e, fmt.Sprint("order-", i)).Result(t.Context()); err != nil || got != fmt.Sprint(i, i, i) {
			t.Errorf("order %d: %q, %v", i, got, err)
		}
	}
}

func TestOutboxKeepsWhatCannotBeDelivered(t *testing.T) {
	w := pawl.Define("order", func(ctx pawl.Context, _ int) (int, error) { return pawl.WaitEvent[int](ctx, "never") })
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	db, o := shop(t)
	for range 2 { // the second one finds the id taken
		if err := pawl.StartIn(t.Context(), o, pawl.SQLTx(db), w, "same", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := pawl.SendIn(t.Context(), o, pawl.SQLTx(db), "nobody", "paid", 1); err != nil {
		t.Fatal(err)
	}
	if err := o.RelayOnce(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), "SELECT failure FROM pawl_outbox ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var failure string
		if err := rows.Scan(&failure); err != nil {
			t.Fatal(err)
		}
		got = append(got, failure)
	}
	if rows.Err() != nil || len(got) != 2 || !strings.Contains(got[0], "has this workflow id") || !strings.Contains(got[1], "no such run") {
		t.Errorf("%q, %v", got, rows.Err())
	}
}

// TestOutboxHoldsBackWhatFollows: what cannot be delivered at present keeps its place, and only what is for the same workflow id
// waits for it, however many rows there are.
func TestOutboxHoldsBackWhatFollows(t *testing.T) {
	define := func(name string) *pawl.Workflow[int, int] {
		return pawl.Define(name, func(ctx pawl.Context, n int) (int, error) {
			more, err := pawl.WaitEvent[int](ctx, "more")
			return n + more, err
		})
	}
	known, later := define("known"), define("later")
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{known}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	db, o := shop(t)
	const runs = 150
	for i := range runs {
		w := known
		if i%3 == 0 {
			w = later
		}
		id := fmt.Sprint("run-", i)
		err := pawl.StartIn(t.Context(), o, pawl.SQLTx(db), w, id, i)
		err = errors.Join(err, pawl.SendIn(t.Context(), o, pawl.SQLTx(db), id, "more", 1000))
		if err != nil {
			t.Fatal(err)
		}
	}
	left := func() (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pawl_outbox WHERE failure IS NULL").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := o.RelayOnce(t.Context(), e); err == nil || !strings.Contains(err.Error(), `workflow "later" is not registered`) || left() != 2*runs/3 {
		t.Fatalf("%d messages are left, %v", left(), err)
	}
	if err := e.Register(later); err != nil {
		t.Fatal(err)
	}
	if err := o.RelayOnce(t.Context(), e); err != nil || left() != 0 {
		t.Fatalf("%d messages are left, %v", left(), err)
	}
	for i := range runs {
		if got, err := pawl.RunOf[int](e, fmt.Sprint("run-", i)).Result(t.Context()); err != nil || got != i+1000 {
			t.Errorf("run %d: %d, %v", i, got, err)
		}
	}
}

// BenchmarkOutbox is what a relay hands over, both databases being files.
func BenchmarkOutbox(b *testing.B) {
	w := pawl.Define("one", func(pawl.Context, int) (int, error) { return 1, nil })
	e, err := pawl.Open(b.Context(), pawl.Config{Database: "sqlite:" + filepath.Join(b.TempDir(), "pawl.db"), Workflows: []pawl.Definition{w}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	db, o := shop(b)
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		if err := pawl.StartIn(b.Context(), o, pawl.SQLTx(tx), w, fmt.Sprint("run-", i), i); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := o.RelayOnce(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// pgxLike has the shape of pgx.Tx.
type pgxLike struct{ queries []string }

type commandTag struct{}

func (p *pgxLike) Exec(_ context.Context, query string, _ ...any) (commandTag, error) {
	p.queries = append(p.queries, query)
	return commandTag{}, nil
}

func TestOutboxSpeaksPostgres(t *testing.T) {
	o, err := pawl.NewOutbox(nil, pawl.OutboxConfig{Dialect: pawl.Postgres, Table: "app.outbox"})
	if err != nil {
		t.Fatal(err)
	}
	tx := &pgxLike{}
	if err := pawl.SendIn(t.Context(), o, pawl.PgxTx(tx), "run", "paid", 1); err != nil {
		t.Fatal(err)
	}
	want := "INSERT INTO app.outbox (id, message, created_ms) VALUES ($1, $2, $3)"
	if len(tx.queries) != 1 || tx.queries[0] != want || !strings.Contains(o.Schema(), "GENERATED ALWAYS AS IDENTITY") {
		t.Errorf("%q, %s", tx.queries, o.Schema())
	}
	if _, err := pawl.NewOutbox(nil, pawl.OutboxConfig{Table: "a; DROP TABLE b"}); err == nil {
		t.Error("a table name with a statement in it is taken")
	}
}

// TestOutboxReachesTheChain relays events to a workflow id while its runs follow one another, with every third answer lost.
func TestOutboxReachesTheChain(t *testing.T) {
	const events = 20
	w := collector(events, continueWith)
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	db, o := shop(t)
	if err := pawl.StartIn(t.Context(), o, pawl.SQLTx(db), w, "order-1", ledger{}); err != nil {
		t.Fatal(err)
	}
	var want []int
	for i := range events {
		want = append(want, i)
		if err := pawl.SendIn(t.Context(), o, pawl.SQLTx(db), "order-1", "paid", i); err != nil {
			t.Fatal(err)
		}
	}
	client := &cut{Client: e, every: 3}
	for more := true; more; {
		var left int
		if err := o.RelayOnce(t.Context(), client); err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pawl_outbox").Scan(&left); err != nil {
			t.Fatal(err)
		}
		more = left > 0
	}
	if got, err := pawl.RunOf[string](e, "order-1").Result(t.Context()); err != nil || got != fmt.Sprint(want) {
		t.Errorf("%s, %v", got, err)
	}
}
