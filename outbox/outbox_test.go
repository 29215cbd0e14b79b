package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite" // the caller's own database

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/journal/memory"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // the journal of the engine that is measured
	"github.com/pawl-dev/pawl/outbox"
)

// shop is a caller's own SQLite database with an outbox in it.
type shop struct {
	*sql.DB
	box *outbox.Outbox
}

func openShop(t testing.TB, cfg outbox.Config) shop {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	box, err := outbox.New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	return shop{db, box}
}

// waiting returns how many messages wait to be delivered.
func (s shop) waiting(t testing.TB) (n int) {
	t.Helper()
	err := s.QueryRowContext(t.Context(), "SELECT count(*) FROM pawl_outbox WHERE failure IS NULL").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inTx writes messages in one transaction and commits it.
func (s shop) inTx(t testing.TB, write func(tx outbox.Tx) error) {
	t.Helper()
	tx, err := s.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(outbox.SQLTx(tx)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// failures returns the reasons of the messages that can never be delivered.
func (s shop) failures(t testing.TB) (reasons []string) {
	t.Helper()
	rows, err := s.QueryContext(t.Context(), "SELECT failure FROM pawl_outbox WHERE failure IS NOT NULL ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var reason string
		if err := rows.Scan(&reason); err != nil {
			t.Fatal(err)
		}
		reasons = append(reasons, reason)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return reasons
}

// insert writes a message as it stands.
func (s shop) insert(t testing.TB, id, message string) {
	t.Helper()
	_, err := s.ExecContext(t.Context(),
		"INSERT INTO pawl_outbox (id, message, created_ms) VALUES (?, ?, 1767225600000)", id, message)
	if err != nil {
		t.Fatal(err)
	}
}

func openEngine(t testing.TB, cfg pawl.Config, workflows ...pawl.Definition) *pawl.Engine {
	t.Helper()
	if cfg.Database == "" {
		cfg.Journal = memory.New()
	}
	cfg.Workflows = workflows
	e, err := pawl.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

var errLost = errors.New("the connection was cut")

// losesAnswers is a client that does everything it is asked for, but every few calls its answer gets lost.
type losesAnswers struct {
	pawl.Client
	every int64
	calls atomic.Int64
}

func (c *losesAnswers) lost() error {
	if c.calls.Add(1)%c.every == 0 {
		return errLost
	}
	return nil
}

func (c *losesAnswers) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	s, err := c.Client.StartRun(ctx, r)
	return s, errors.Join(err, c.lost())
}

func (c *losesAnswers) SendEvent(ctx context.Context, id string, e client.SendRequest) error {
	return errors.Join(c.Client.SendEvent(ctx, id, e), c.lost())
}

// relayAll relays until no message waits. What fails because an answer got lost is tried again.
func (s shop) relayAll(ctx context.Context, c pawl.Client) error {
	for {
		if err := s.box.RelayOnce(ctx, c); err != nil && !errors.Is(err, errLost) {
			return err
		}
		var n int
		err := s.QueryRowContext(ctx, "SELECT count(*) FROM pawl_outbox WHERE failure IS NULL").Scan(&n)
		if err != nil || n == 0 {
			return err
		}
	}
}

// purchase returns a workflow that ends with its second event: a repeated second event finds a run that has ended.
func purchase() *pawl.Workflow[int, string] {
	return pawl.Define("purchase", func(ctx pawl.Context, n int) (string, error) {
		a, err := pawl.Event[int]("paid").Wait(ctx)
		if err != nil {
			return "", err
		}
		b, err := pawl.Event[int]("shipped").Wait(ctx)
		return fmt.Sprint(n, a, b), err
	})
}

// placeOrder writes an order, its run and its events through the transaction.
func placeOrder(ctx context.Context, box *outbox.Outbox, tx outbox.Tx, n int) error {
	id := fmt.Sprint("order-", n)
	err := tx(ctx, "INSERT INTO orders VALUES ($1)", id)
	err = errors.Join(err, outbox.StartIn(ctx, box, tx, purchase(), id, n))
	for _, event := range []string{"paid", "shipped"} {
		err = errors.Join(err, outbox.SendIn(ctx, box, tx, id, pawl.Event[int](event), n))
	}
	return err
}

// TestRelaysExactlyOnce places orders, rolls every third one back, and relays them with every fourth answer lost.
func TestRelaysExactlyOnce(t *testing.T) {
	e := openEngine(t, pawl.Config{}, purchase())
	s := openShop(t, outbox.Config{})
	const orders = 30
	for n := range orders {
		tx, err := s.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := placeOrder(t.Context(), s.box, outbox.SQLTx(tx), n); err != nil {
			t.Fatal(err)
		}
		if n%3 == 2 {
			err = tx.Rollback() // neither the row nor the run
		} else {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.relayAll(t.Context(), &losesAnswers{Client: e, every: 4}); err != nil {
		t.Fatal(err)
	}
	runs, err := e.ListRuns(t.Context(), client.Query{Workflow: "purchase", Limit: 100})
	if err != nil || len(runs) != orders*2/3 {
		t.Fatalf("%d runs of %d orders, %v", len(runs), orders*2/3, err)
	}
	for n := range orders {
		if n%3 == 2 {
			continue
		}
		got, err := pawl.RunOf[string](e, fmt.Sprint("order-", n)).Result(t.Context())
		if err != nil || got != fmt.Sprint(n, n, n) {
			t.Errorf("order %d: %q, %v", n, got, err)
		}
	}
}

func TestKeepsWhatCanNeverBeDelivered(t *testing.T) {
	w := pawl.Define("order", func(ctx pawl.Context, _ int) (int, error) { return pawl.Event[int]("never").Wait(ctx) })
	e := openEngine(t, pawl.Config{}, w)
	s := openShop(t, outbox.Config{})
	tx := outbox.SQLTx(s)
	for range 2 { // the second one finds the id taken
		if err := outbox.StartIn(t.Context(), s.box, tx, w, "same", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := outbox.SendIn(t.Context(), s.box, tx, "nobody", "paid", 1); err != nil {
		t.Fatal(err)
	}
	if err := s.box.RelayOnce(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	got := s.failures(t)
	want := []string{"has this workflow id", "no such run"}
	if !slices.EqualFunc(got, want, strings.Contains) || s.waiting(t) != 0 {
		t.Errorf("%q, and %d messages wait", got, s.waiting(t))
	}
}

// addLater returns a workflow that ends with an event.
func addLater(name string) *pawl.Workflow[int, int] {
	return pawl.Define(name, func(ctx pawl.Context, n int) (int, error) {
		more, err := pawl.Event[int]("more").Wait(ctx)
		return n + more, err
	})
}

// TestHoldsBackWhatFollows relays messages for a workflow that the engine does not know yet. They keep their place
// and hold back what follows for the same workflow id, and nothing else: not even where they alone fill more than a
// page.
func TestHoldsBackWhatFollows(t *testing.T) {
	for name, isLater := range map[string]func(n int) bool{
		"mixed": func(n int) bool { return n%3 == 0 },
		"first": func(n int) bool { return n < 120 },
	} {
		t.Run(name, func(t *testing.T) {
			known, later := addLater("known"), addLater("later")
			e := openEngine(t, pawl.Config{}, known)
			s := openShop(t, outbox.Config{})
			const runs = 150
			want := 0 // messages that wait until the workflow is known
			s.inTx(t, func(tx outbox.Tx) (err error) {
				for n := range runs {
					w := known
					if isLater(n) {
						w = later
						want += 2
					}
					id := fmt.Sprint("run-", n)
					err = errors.Join(err, outbox.StartIn(t.Context(), s.box, tx, w, id, n))
					err = errors.Join(err, outbox.SendIn(t.Context(), s.box, tx, id, "more", 1000))
				}
				return err
			})
			err := s.box.RelayOnce(t.Context(), e)
			reason := `pawl: outbox: start: workflow "later" is not registered`
			if err == nil || !strings.HasPrefix(err.Error(), reason) || s.waiting(t) != want {
				t.Fatalf("%d messages wait, want %d: %v", s.waiting(t), want, err)
			}
			if err := e.Register(later); err != nil {
				t.Fatal(err)
			}
			if err := s.box.RelayOnce(t.Context(), e); err != nil || s.waiting(t) != 0 {
				t.Fatalf("%d messages wait, %v", s.waiting(t), err)
			}
			for n := range runs {
				got, err := pawl.RunOf[int](e, fmt.Sprint("run-", n)).Result(t.Context())
				if err != nil || got != n+1000 {
					t.Errorf("run %d: %d, %v", n, got, err)
				}
			}
		})
	}
}

// TestReachesTheChain relays events to a workflow id while its runs follow one another, with every third answer lost.
func TestReachesTheChain(t *testing.T) {
	const events = 20
	type ledger struct{ Paid []int }
	w := pawl.Define("collect", func(ctx pawl.Context, l ledger) (string, error) {
		n, err := pawl.Event[int]("paid").Wait(ctx)
		if err != nil {
			return "", err
		}
		l.Paid = append(l.Paid, n)
		if len(l.Paid) < events {
			return "", pawl.ContinueAsNew(ctx, l)
		}
		return fmt.Sprint(l.Paid), nil
	})
	e := openEngine(t, pawl.Config{}, w)
	s := openShop(t, outbox.Config{})
	if err := outbox.StartIn(t.Context(), s.box, outbox.SQLTx(s), w, "order-1", ledger{}); err != nil {
		t.Fatal(err)
	}
	var want []int
	for n := range events {
		want = append(want, n)
		if err := outbox.SendIn(t.Context(), s.box, outbox.SQLTx(s), "order-1", "paid", n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.relayAll(t.Context(), &losesAnswers{Client: e, every: 3}); err != nil {
		t.Fatal(err)
	}
	if got, err := pawl.RunOf[string](e, "order-1").Result(t.Context()); err != nil || got != fmt.Sprint(want) {
		t.Errorf("%s, %v", got, err)
	}
}

// pgxLike has the shape of pgx.Tx.
type pgxLike struct {
	query string
	args  []any
}

type commandTag struct{}

func (p *pgxLike) Exec(_ context.Context, query string, args ...any) (commandTag, error) {
	p.query, p.args = query, args
	return commandTag{}, nil
}

func TestPostgresStatements(t *testing.T) {
	box, err := outbox.New(nil, outbox.Config{Postgres: true, Table: "app.outbox"})
	if err != nil {
		t.Fatal(err)
	}
	tx := &pgxLike{}
	if err := outbox.SendIn(t.Context(), box, outbox.PgxTx(tx), "run", "paid", 1); err != nil {
		t.Fatal(err)
	}
	want := "WITH written AS (INSERT INTO app.outbox (id, message, created_ms) VALUES ($1, $2, $3)) SELECT pg_notify("
	if !strings.HasPrefix(tx.query, want) || !strings.Contains(box.Schema(), "GENERATED ALWAYS AS IDENTITY") {
		t.Errorf("%q, %s", tx.query, box.Schema())
	}
}

// TestRefusesAtOnce checks that a wrong message is refused where it is written, not when it is relayed.
func TestRefusesAtOnce(t *testing.T) {
	if _, err := outbox.New(nil, outbox.Config{Table: "a; DROP TABLE b"}); err == nil {
		t.Error("a table name with a statement in it is taken")
	}
	box, err := outbox.New(nil, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tx := &pgxLike{}
	bad := pawl.Define[int, int]("bad", nil)
	if err := outbox.StartIn(t.Context(), box, outbox.PgxTx(tx), bad, "", 1); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a workflow without a function: %v", err)
	}
	err = outbox.SendIn(t.Context(), box, outbox.PgxTx(tx), "run", "paid", func() {})
	if err == nil || !strings.Contains(err.Error(), "the payload of event paid cannot be encoded") {
		t.Errorf("a function as a payload: %v", err)
	}
	if tx.query != "" {
		t.Errorf("%s was executed", tx.query)
	}
}

// BenchmarkOutbox measures how many messages a relay delivers while both databases are files.
func BenchmarkOutbox(b *testing.B) {
	w := pawl.Define("one", func(pawl.Context, int) (int, error) { return 1, nil })
	e := openEngine(b, pawl.Config{Database: "sqlite:" + filepath.Join(b.TempDir(), "pawl.db")}, w)
	s := openShop(b, outbox.Config{})
	s.inTx(b, func(tx outbox.Tx) (err error) {
		for n := range b.N {
			err = errors.Join(err, outbox.StartIn(b.Context(), s.box, tx, w, fmt.Sprint("run-", n), n))
		}
		return err
	})
	b.ResetTimer()
	if err := s.box.RelayOnce(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
