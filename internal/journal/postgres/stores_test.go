package postgres

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// address returns a DSN for the map, and has its password where a process looks for it.
func address(t *testing.T, name, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	t.Setenv(cluster.PasswordOf(name), password)
	u.User = url.User(u.User.Username())
	return u.String()
}

// added returns the address of a schema for this test alone, of which a second server is the store b. It has the same
// name there, and stays until that server ends.
func added(t *testing.T, first, second string) (dsn, other string) {
	t.Helper()
	dsn = own(t, first)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("schema")
	other = with(t, second, "schema", schema)
	j, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.(cluster.Stores).AddStore(t.Context(), "b", address(t, "b", other)); err != nil {
		t.Fatal(err)
	}
	return dsn, other
}

// TestJournalOverTwoStores runs the suite on a journal of which one partition is in the first database and two are in
// another one.
func TestJournalOverTwoStores(t *testing.T) {
	nightly.Only(t, "it runs the whole suite of journals again")
	first, second := pgtest.Start(t), pgtest.StartServer(t).DSN()
	journaltest.Run(t, func(t *testing.T) journaltest.Store {
		dsn, other := added(t, first, second)
		u, _ := url.Parse(dsn) // added has parsed it
		in := place{schema: u.Query().Get("schema")}
		execute(t, dsn, in.in("INSERT INTO {schema}.placements (partition, store) VALUES (0, 'b'), (2, 'b')"))
		execute(t, other, in.in("DELETE FROM {schema}.partitions WHERE partition <> 1"))
		return store(t, dsn, other)
	})
}

// TestStoreRefused says what is wrong with a database that cannot be a store.
func TestStoreRefused(t *testing.T) {
	first := pgtest.Start(t)
	dsn := own(t, first)
	j := opened(t, dsn)
	other := own(t, first)
	if err := opened(t, other).PutDocuments(t.Context(), journal.Document{Key: "k", Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	empty, secret := address(t, "b", own(t, first)), own(t, first)
	for _, c := range []struct{ name, address, says string }{
		{"first", empty, "cannot be one"},
		{"B", empty, "lower-case letters"},
		{"b", secret, "leave the password out of the address"},
		{"b", "mysql://somewhere", "write it like postgres://"},
		{"b", address(t, "b", dsn), "is the first database itself"},
		{"b", address(t, "b", other), "is a database of its own"},
		{"c", empty, "correct the user or the password"}, // its variable is not set
		{"b", "postgres://u@127.0.0.1:1/d", "no server answers there"},
	} {
		err := j.AddStore(t.Context(), c.name, c.address)
		if refused := new(cluster.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v", c.name, c.says, err)
		}
	}
	for range 2 { // a second time changes nothing
		if err := j.AddStore(t.Context(), "b", empty); err != nil {
			t.Fatal(err)
		}
	}
	err := opened(t, own(t, first)).AddStore(t.Context(), "b", empty)
	if err == nil || !strings.Contains(err.Error(), "is the store of another cluster") {
		t.Errorf("a store of another cluster: %v", err)
	}
	t.Setenv("PGPASSWORD", os.Getenv(cluster.PasswordOf("b")))
	if _, err = Open(t.Context(), empty); !errors.Is(err, journal.ErrNoJournal) ||
		!strings.Contains(err.Error(), "is the store b of a cluster: name the first database") {
		t.Errorf("opened as a first database: %v", err)
	}
}

// TestStoreSilent checks two nodes' worth of partitions in two stores: while one store is away, the other partitions
// work, a request that needs all stores names it, and when its tables are gone only its partitions are lost.
func TestStoreSilent(t *testing.T) {
	first := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, pgtest.StartServer(t).DSN())
	dsn, other := added(t, first, proxy.DSN())
	j := opened(t, with(t, dsn, "statement_timeout", "1s"))
	err := j.Place(t.Context(), 1, "b")
	if err == nil {
		err = j.Switch(t.Context(), 1, "mover")
	}
	if err != nil {
		t.Fatal(err)
	}
	var leases [2]journal.Lease
	send := func(from, to int, text string) error {
		leases[from].Last++
		seq := leases[from].Last
		m := journal.Message{From: from, To: to, Seq: journal.MessageSeq(seq, 0), Encoded: []byte(text)}
		return j.Append(t.Context(), &journal.Batch{
			Partition: from, Epoch: leases[from].Epoch, Seq: seq, Out: []journal.Message{m},
		})
	}
	for p := range leases {
		if leases[p], err = j.Acquire(t.Context(), p, "owner"); err == nil {
			err = send(p, 1-p, "hello")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if in, err := j.Inbox(t.Context(), 0, nil, 10); err != nil || len(in) != 1 || in[0].From != 1 {
		t.Errorf("from the other store: %+v, %v", in, err)
	}

	proxy.Hold()
	if err := send(0, 0, "to itself"); err != nil {
		t.Error(err)
	}
	if in, err := j.Inbox(t.Context(), 0, nil, 10); err != nil || len(in) != 1 || in[0].From != 0 {
		t.Errorf("without the other store: %+v, %v", in, err)
	}
	if _, err := j.List(t.Context(), journal.Query{}); err == nil || !strings.Contains(err.Error(), "store b") {
		t.Errorf("a list: %v", err)
	}
	s, err := j.Snapshot(t.Context())
	if err != nil || s.Stores[1].Err == nil || !s.Partitions[1].Silent || s.Partitions[0].Owner != "owner" {
		t.Errorf("%+v, %v", s, err)
	}
	proxy.Release()

	execute(t, other, j.in("DROP TABLE {schema}.journal"))
	if err := send(1, 0, "lost"); err == nil || errors.Is(err, journal.ErrGone) ||
		!strings.Contains(err.Error(), "the tables were dropped") {
		t.Errorf("without its tables: %v", err)
	}
	if err := send(0, 1, "on"); err != nil {
		t.Error(err)
	}
}

// TestStoreRestored finds that the stores are of different times.
func TestStoreRestored(t *testing.T) {
	dsn, other := added(t, pgtest.Start(t), pgtest.StartServer(t).DSN())
	m := &mover{T: t, dsn: dsn}
	m.reopen()
	m.place("b")
	m.work(3)
	m.moved("b")
	l, err := m.j.Acquire(t.Context(), 1, "owner")
	if err == nil {
		err = m.j.Append(t.Context(), &journal.Batch{
			Partition: 1, Epoch: l.Epoch, Seq: 1, Taken: []journal.Taken{{From: 0, Through: journal.MessageSeq(3, 0)}},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.j.Inspect(t.Context())
	if err != nil || len(i.Problems) > 0 || i.Messages != 0 {
		t.Fatalf("%+v, %v", i, err)
	}
	execute(t, other, m.j.in("UPDATE {schema}.partitions SET last = 2, through = 2 WHERE partition = 0;"+
		" DELETE FROM {schema}.journal WHERE partition = 0 AND seq > 2"))
	i, err = m.j.Inspect(t.Context())
	if err != nil || !strings.Contains(strings.Join(i.Problems, "\n"), "the stores were restored to different times") {
		t.Errorf("%+v, %v", i, err)
	}
}
