package postgres

import (
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// older makes a schema what an older Pawl would have left. From then on the process that has it open stands for such.
func older(t *testing.T, dsn string, in *storage, oldest string) {
	t.Helper()
	execute(t, dsn, in.in("UPDATE {schema}.meta SET value = '"+oldest+"' WHERE key = 'oldest'"))
	in.folds.Store(false)
}

// oldestOf returns which version of the schema a store needs.
func oldestOf(t *testing.T, at *storage) string {
	t.Helper()
	st, err := at.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if folds := st.oldest >= foldedSince; folds != at.folds.Load() {
		t.Errorf("%s folds rows: %t", at.name, !folds)
	}
	return strconv.Itoa(st.oldest)
}

// TestOlderOwnersAfterAnOutage: the database was away for longer than a lease. The older owners are alive, and write
// again as soon as they see the database, perhaps after the new process.
func TestOlderOwnersAfterAnOutage(t *testing.T) {
	dsn := own(t, pgtest.Start(t))
	old := opened(t, dsn)
	older(t, dsn, old.storage, "1")
	l := newLine(t, old)
	n := cluster.Node{ID: "old", Address: "old:7296", Version: "v1", Secret: "s"}
	if err := old.Beat(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	rests := func(what string) bool {
		t.Helper()
		j, err := Open(t.Context(), dsn)
		if err != nil {
			t.Fatal(what, err)
		}
		defer j.Close()
		return j.(*stores).folds.Load()
	}
	execute(t, dsn, old.in("UPDATE {schema}.partitions SET until = clock_timestamp() - interval '2 hours';"+
		" UPDATE {schema}.nodes SET term = 1000000, beat = clock_timestamp() - interval '10 seconds'"))
	if rests("after the outage") {
		t.Error("rows are folded while an older owner is alive whose lease has expired")
	}
	if _, err := old.Renew(t.Context(), 0, l.lease.Epoch); err != nil {
		t.Error(err)
	}
	if err := old.Release(t.Context(), 0, l.lease.Epoch); err != nil {
		t.Fatal(err)
	}
	if rests("without leases") {
		t.Error("rows are folded while an older node is alive whose sign of life is late")
	}
	if err := old.Remove(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if !rests("at rest") {
		t.Error("rows are not folded when all older processes were stopped")
	}
}

// TestStoresGoOver: a cluster with stores of before goes over when all its processes were stopped, and its partitions
// come back from a store to the first database.
func TestStoresGoOver(t *testing.T) {
	first, second := pgtest.Start(t), pgtest.StartServer(t).DSN()
	m := newMover(t, first, second)
	b := m.j.layout.Load().all[1]
	older(t, first, m.j.storage, "9")
	older(t, second, b, "1")

	// Older code works in the store alone: nothing of it is to be seen in the first database.
	m.work(3)
	m.place("b")
	m.moved("b")
	l, err := m.j.Acquire(t.Context(), 0, "older")
	if err != nil {
		t.Fatal(err)
	}
	old := m.j
	m.j = opened(t, m.dsn)
	if m.j.folds.Load() {
		t.Error("rows are folded while older code works in a store")
	}
	if _, _, err := m.j.route(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "does not move") {
		t.Error(err)
	}
	at := m.j.layout.Load().all[1]
	if got := oldestOf(t, at); got != "1" {
		t.Errorf("the store needs version %s while older code works in it", got)
	}
	if err := old.Release(t.Context(), 0, l.Epoch); err != nil {
		t.Fatal(err)
	}

	m.j = opened(t, m.dsn)
	if got := oldestOf(t, m.j.storage); got != "11" {
		t.Errorf("the first database needs version %s when all were stopped", got)
	}
	m.work(3)
	if got := oldestOf(t, m.j.layout.Load().all[1]); got != "11" {
		t.Errorf("the store needs version %s when the first database has gone over", got)
	}
	m.place(nameOfFirst)
	m.moved(nameOfFirst)
	m.work(2)
	m.whole("it is back")
	if err := m.j.RemoveStore(t.Context(), "b", false); err != nil {
		t.Error(err)
	}
}

// TestStoreOfBefore: a partition moves from a first database that has gone over to a store that has not yet, because it
// did not answer then.
func TestStoreOfBefore(t *testing.T) {
	first, second := pgtest.Start(t), pgtest.StartServer(t).DSN()
	m := newMover(t, first, second)
	m.work(3)
	older(t, second, m.j.layout.Load().all[1], "1")
	m.place("b")
	m.moved("b")
	if got := oldestOf(t, m.j.layout.Load().all[1]); got != "11" {
		t.Errorf("the store needs version %s", got)
	}
}

// TestNewStoreOfOlder: a store that is added while older code is at work is like the first database, so that its
// partitions can come back.
func TestNewStoreOfOlder(t *testing.T) {
	first := pgtest.Start(t)
	dsn := own(t, first)
	old := opened(t, dsn)
	older(t, dsn, old.storage, "1")
	newLine(t, old)
	j := opened(t, dsn)
	if err := j.AddStore(t.Context(), "b", address(t, "b", own(t, pgtest.StartServer(t).DSN()))); err != nil {
		t.Fatal(err)
	}
	b := j.layout.Load().all[1]
	if err := b.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := oldestOf(t, b); got != "1" {
		t.Errorf("a new store needs version %s, and older code is at work", got)
	}
}

// TestFoldedRowsStay: a partition with folded rows is not moved to a database with which older code may still work.
func TestFoldedRowsStay(t *testing.T) {
	first := pgtest.Start(t)
	m := newMover(t, first, pgtest.StartServer(t).DSN())
	m.work(3)
	m.place("b")
	m.moved("b")
	older(t, first, m.j.storage, "9") // a store that was added by an earlier version of this code
	l, err := m.j.Acquire(t.Context(), 0, "older")
	if err != nil {
		t.Fatal(err)
	}
	m.j = opened(t, m.dsn)
	m.place(nameOfFirst)
	if _, _, err := m.j.route(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "stop all processes once") {
		t.Error(err)
	}
	if err := m.j.Release(t.Context(), 0, l.Epoch); err != nil {
		t.Fatal(err)
	}
	m.j = opened(t, m.dsn)
	m.moved(nameOfFirst)
}
