package vfs

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TestCommitsSyncData checks that each commit is one fdatasync, an interrupted one is made again, and one that fails
// fails the commit.
func TestCommitsSyncData(t *testing.T) {
	calls, fails := 0, error(nil)
	fdatasync = func(file int) error {
		calls++
		if err := fails; err != nil {
			fails = nil
			return err
		}
		return unix.Fdatasync(file)
	}
	t.Cleanup(func() { fdatasync = unix.Fdatasync })

	if Writer() != ours {
		t.Fatalf("a database is written with the virtual file system %q", Writer())
	}
	path := filepath.Join(t.TempDir(), "file.db")
	uri := url.URL{Scheme: "file", Path: path, RawQuery: "vfs=" + Writer()}
	c, err := sqlite.OpenConn(uri.String(), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	do := func(query string) error { return sqlitex.ExecuteTransient(c, query, nil) }
	for _, query := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE t (n INTEGER)",
		"INSERT INTO t VALUES (1)",
	} {
		if err := do(query); err != nil {
			t.Fatal(query, err)
		}
	}
	calls = 0
	for range 5 {
		if err := do("INSERT INTO t VALUES (2)"); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 5 {
		t.Errorf("5 commits made %d calls", calls)
	}
	fails = unix.EINTR
	if err := do("INSERT INTO t VALUES (3)"); err != nil || calls != 7 {
		t.Errorf("after an interrupted call: %v, %d calls", err, calls)
	}
	fails = unix.EIO
	if err := do("INSERT INTO t VALUES (4)"); sqlite.ErrCode(err) != sqlite.ResultIOErrFsync || calls != 8 {
		t.Errorf("after a failed call: %v, %d calls", err, calls)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	// A program without it reads what it wrote.
	c, err = sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	err = sqlitex.ExecuteTransient(c, "SELECT n FROM t ORDER BY n", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { all = append(all, s.ColumnText(0)); return nil },
	})
	if got := strings.Join(all, " "); err != nil || !strings.HasPrefix(got, "1 2 2 2 2 2 3") {
		t.Errorf("the file has %q, %v", got, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
