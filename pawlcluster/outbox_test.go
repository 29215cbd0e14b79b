package pawlcluster_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the caller's own transactions

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/outbox"
)

// orders places orders in transactions of its own, in the schema that the nodes have.
type orders struct {
	*testing.T
	db *sql.DB
	w  *pawl.Workflow[int, string]
}

// place starts the run of an order and sends its event, through the outbox of a node.
func (o orders) place(node *pawl.Engine, id string, commit bool) {
	o.Helper()
	ctx := o.Context()
	box, err := outbox.Of(node)
	ok(o.T, err)
	tx, err := o.db.BeginTx(ctx, nil)
	ok(o.T, err)
	ok(o.T, outbox.StartIn(ctx, box, outbox.SQLTx(tx), o.w, id, 1))
	ok(o.T, outbox.SendIn(ctx, box, outbox.SQLTx(tx), id, paid, 100))
	if commit {
		ok(o.T, tx.Commit())
	} else {
		ok(o.T, tx.Rollback())
	}
}

// warnings says when the relay could not deliver something.
type warnings chan struct{}

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (w warnings) WithAttrs([]slog.Attr) slog.Handler               { return w }
func (w warnings) WithGroup(string) slog.Handler                    { return w }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "of the outbox") {
		select {
		case w <- struct{}{}:
		default: // it was said already
		}
	}
	return nil
}

// relays reports whether a node delivers what transactions write.
func relays(e *pawl.Engine) bool { return slices.Contains(owned(e), 0) }

func owned(e *pawl.Engine) []int {
	_, partitions := e.Node()
	return partitions
}

// ended waits for the result of an order, which may not be started yet.
func (o orders) ended(c pawl.Client, id string) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), time.Minute)
	defer cancel()
	for {
		out, err := pawl.RunOf[string](c, id).Result(ctx)
		switch {
		case errors.Is(err, pawl.ErrNotFound), errors.Is(err, pawl.ErrHeld) && ctx.Err() == nil:
		case err != nil || out != "101":
			o.Fatalf("%s: result %q, %v", id, out, err)
		default:
			return
		}
	}
}

// TestOutbox checks that the messages of transactions are started and sent once, by whichever node relays, also when
// that one leaves, and when it does not know the workflow yet.
func TestOutbox(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := pgtest.StartServer(t)
	address := server.DSN() + "&partitions=6&" + server.Lease()
	w := pawl.Define("order", func(ctx pawl.Context, n int) (string, error) {
		sum, err := paid.Wait(ctx)
		return fmt.Sprint(n + sum), err
	})
	db, err := sql.Open("pgx", server.DSN())
	ok(t, err)
	defer func() { ok(t, db.Close()) }()
	o := orders{t, db, w}

	said := make(warnings, 1)
	nodes := []*pawl.Engine{openWith(t, pawl.Config{Database: address, Log: slog.New(said)})}
	defer func() {
		for _, n := range nodes {
			ok(t, n.Close())
		}
	}()
	o.place(nodes[0], "early", true)
	o.place(nodes[0], "never", false)
	failure := func() (failed, waiting int) {
		ok(t, db.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE failure IS NOT NULL), count(*) FROM pawl.outbox").
			Scan(&failed, &waiting))
		return failed, waiting
	}
	<-said // that node has no such workflow yet
	if failed, waiting := failure(); failed != 0 || waiting != 2 {
		t.Fatalf("messages for a workflow that is not registered yet: %d failed, %d are there", failed, waiting)
	}
	ok(t, nodes[0].Register(w))
	o.ended(nodes[0], "early")
	nodes = append(nodes, open(t, address, w), open(t, address, w))

	const all = 20
	for n := range all {
		o.place(nodes[n%len(nodes)], fmt.Sprint("order-", n), true)
		if n == all/2 {
			gone := -1
			for gone < 0 { // nobody has the partition while it moves
				gone = slices.IndexFunc(nodes, relays)
			}
			ok(t, nodes[gone].Close())
			nodes = slices.Delete(nodes, gone, gone+1)
		}
	}
	for n := range all {
		o.ended(nodes[n%len(nodes)], fmt.Sprint("order-", n))
	}
	if _, err := nodes[0].DescribeRun(ctx, "never"); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("a transaction that was rolled back: %v", err)
	}
	for left := 1; left > 0; { // delivered messages are deleted after that
		failed := 0
		if failed, left = failure(); failed > 0 {
			t.Fatalf("%d messages could not be delivered", failed)
		}
	}
}

// TestOutboxWhileAStoreIsSilent checks that the outbox, which is in the first database, delivers its messages for runs
// there while the store that keeps partition 0 does not answer.
func TestOutboxWhileAStoreIsSilent(t *testing.T) {
	ctx := t.Context()
	server := pgtest.StartServer(t)
	proxy := pgtest.NewProxy(t, pgtest.StartServer(t).DSN())
	u, err := url.Parse(proxy.DSN())
	ok(t, err)
	password, _ := u.User.Password()
	t.Setenv(cluster.PasswordOf("b"), password)
	u.User = url.User(u.User.Username())
	address := server.DSN() + "&partitions=6&statement_timeout=1s&" + server.Lease()
	w := pawl.Define("order", func(ctx pawl.Context, n int) (string, error) {
		sum, err := paid.Wait(ctx)
		return fmt.Sprint(n + sum), err
	})
	node := open(t, address, w)
	name, _ := node.Node()
	defer func() { _ = node.Close() }() // it cannot give partition 0 back while the store is silent
	db, err := sql.Open("pgx", server.DSN())
	ok(t, err)
	defer func() { ok(t, db.Close()) }()
	o := orders{t, db, w}
	o.place(node, "before", true)
	o.ended(node, "before")

	j, err := postgres.Open(ctx, address)
	ok(t, err)
	defer func() { ok(t, j.Close()) }()
	stores := j.(cluster.Stores)
	ok(t, stores.AddStore(ctx, "b", u.String()))
	ok(t, stores.Place(ctx, 0, "b"))
	await := func(what string, reached func(cluster.Partition) bool) {
		t.Helper()
		for ctx, cancel := context.WithTimeout(ctx, time.Minute); ; {
			s, err := j.(cluster.Storage).Snapshot(ctx)
			if err == nil && reached(s.Partitions[0]) {
				cancel()
				return
			}
			if ctx.Err() != nil {
				t.Fatal(what, s, err)
			}
		}
	}
	await("moved", func(p cluster.Partition) bool { return p.Store == "b" && p.Owner == name && p.Alive })
	proxy.Hold()
	await("silent", func(p cluster.Partition) bool { return p.Silent })
	for slices.Contains(owned(node), 0) { // the lease ends
		_, err := j.(cluster.Storage).Snapshot(ctx)
		ok(t, err)
	}
	for n := range 6 {
		id := fmt.Sprint("order-", n)
		if int(core.KeyOfWorkflowID(id))%6 != 0 {
			o.place(node, id, true)
			o.ended(node, id)
		}
	}
	proxy.Release()
}
