package postgres

import (
	"net/url"
	"testing"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
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
	t.Setenv(passwordOf(name), password)
	u.User = url.User(u.User.Username())
	return u.String()
}

// added returns the address of a schema for this test alone, of which a second server is the store b. It has the same
// name there.
func added(t *testing.T, first, second string) (dsn, other string) {
	t.Helper()
	dsn = own(t, first)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("schema")
	t.Cleanup(func() { execute(t, second, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
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

// TestJournalOverTwoStores is the suite on a journal of which one partition is in the first database and two are in
// another one.
func TestJournalOverTwoStores(t *testing.T) {
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
