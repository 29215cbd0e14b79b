package vfs_test

import (
	"errors"
	"net/url"
	"sync/atomic"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/disktest"
	"github.com/pawl-dev/pawl/internal/journal/sqlite/vfs"
)

const (
	file = "file.db"
	log  = file + "-wal"
)

// open opens a database on a disk of tests as the journal does.
func open(t *testing.T, d *disktest.Disk) *sqlite.Conn {
	t.Helper()
	uri := url.URL{Scheme: "file", Path: d.Path(file), RawQuery: "vfs=" + url.PathEscape(vfs.Writer())}
	c, err := sqlite.OpenConn(uri.String(), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, query := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 0",
	} {
		run(t, c, query)
	}
	return c
}

func run(t *testing.T, c *sqlite.Conn, query string) {
	t.Helper()
	if err := sqlitex.ExecuteTransient(c, query, nil); err != nil {
		t.Fatal(query, err)
	}
}

func number(t *testing.T, c *sqlite.Conn, query string) (n int) {
	t.Helper()
	err := sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { n = s.ColumnInt(0); return nil },
	})
	if err != nil {
		t.Fatal(query, err)
	}
	return n
}

// many adds n rows of more than a page each.
func many(n string) string {
	return "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < " + n + ")" +
		" INSERT INTO t SELECT n, randomblob(5000) FROM c"
}

// TestBuffer checks that a commit of many pages reaches the log in few writes, all of them before its sync, and is
// whole for another connection.
func TestBuffer(t *testing.T) {
	d := disktest.New(t)
	c := open(t, d)
	run(t, c, "CREATE TABLE t (n, filler)")
	var writes, late atomic.Int64
	synced := false
	d.Fault(func(op disktest.Op, name string) error {
		switch {
		case name != log:
		case op == disktest.Sync:
			synced = true
		case op == disktest.Write && synced:
			late.Add(1)
		case op == disktest.Write:
			writes.Add(1)
		}
		return nil
	})
	run(t, c, many("100"))
	if n := writes.Load(); n < 4 || n > 8 || late.Load() != 0 || !synced {
		t.Errorf("800 KB were written with %d calls before the sync and %d after it", n, late.Load())
	}
	d.Fault(nil)
	if n := number(t, open(t, d), "SELECT count(*) FROM t"); n != 100 {
		t.Errorf("another connection sees %d rows", n)
	}
}

// TestBufferSpilled checks that a transaction that does not fit in memory reads its own pages from the log, and can be
// taken back.
func TestBufferSpilled(t *testing.T) {
	d := disktest.New(t)
	c, other := open(t, d), open(t, d)
	run(t, c, "CREATE TABLE t (n, filler)")
	run(t, c, "PRAGMA cache_size = 10")
	for i, end := range []string{"ROLLBACK", "COMMIT", "ROLLBACK", "COMMIT"} {
		before := i / 2 * 300
		run(t, c, "BEGIN")
		run(t, c, many("300"))
		run(t, c, "UPDATE t SET filler = randomblob(4000) WHERE n % 7 = 0")
		if n := number(t, c, "SELECT count(filler) FROM t"); n != before+300 {
			t.Errorf("the transaction itself sees %d rows", n)
		}
		if n := number(t, other, "SELECT count(*) FROM t"); n != before {
			t.Errorf("another connection sees %d rows of a transaction that is open", n)
		}
		run(t, c, end)
		if end == "COMMIT" {
			before += 300
		}
		if n := number(t, other, "SELECT count(*) FROM t"); n != before {
			t.Errorf("after %s: another connection sees %d rows", end, n)
		}
	}
	run(t, other, "PRAGMA wal_checkpoint(TRUNCATE)")
	run(t, c, many("3")) // the log begins again
	if bad := number(t, other, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); bad != 0 {
		t.Error("the file is damaged")
	}
	if n := number(t, other, "SELECT count(*) FROM t"); n != 603 {
		t.Errorf("at the end there are %d rows", n)
	}
}

// TestBufferFails checks that, if the log cannot be written, the commit fails and leaves nothing.
func TestBufferFails(t *testing.T) {
	d := disktest.New(t)
	c := open(t, d)
	run(t, c, "CREATE TABLE t (n, filler)")
	for _, rows := range []string{"1", "100"} {
		d.Fault(func(op disktest.Op, name string) error {
			if op == disktest.Write && name == log {
				return errors.New("broken")
			}
			return nil
		})
		err := sqlitex.ExecuteTransient(c, many(rows), nil)
		if sqlite.ErrCode(err) != sqlite.ResultIOErrWrite {
			t.Errorf("%s rows: %v", rows, err)
		}
		d.Fault(nil)
		if n := number(t, open(t, d), "SELECT count(*) FROM t"); n != 0 {
			t.Errorf("%d of %s rows are there", n, rows)
		}
	}
	run(t, c, many("100"))
	if n := number(t, open(t, d), "SELECT count(*) FROM t"); n != 100 {
		t.Errorf("then there are %d rows", n)
	}
}
