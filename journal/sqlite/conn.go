package sqlite

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/journal"
)

// oldestSQLite is the first release without a bug in which a checkpoint and a commit at one moment damage a WAL file.
var oldestSQLite = [3]int{3, 51, 3}

// openConn opens one connection whose page cache holds at most that many bytes.
func openConn(path string, flags sqlite.OpenFlags, cache int) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	// Only foreign programs ever hold a lock that is in our way; they are waited for, but not for ever.
	conn.SetBusyTimeout(5 * time.Second)
	for _, q := range []string{
		fmt.Sprintf("PRAGMA cache_size = -%d", cache>>10),
		"PRAGMA temp_store = MEMORY",
		"PRAGMA wal_autocheckpoint = 0",
	} {
		if err := execute(conn, q); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// openReader opens a read-only connection. A file in a directory that cannot be written has no shared memory beside it;
// where there is no log either, nobody writes it and it can be read as it is.
func openReader(path string) (*sqlite.Conn, error) {
	const cache = 8 << 20
	conn, err := openConn(path, sqlite.OpenReadOnly, cache)
	if err == nil {
		if err = execute(conn, "SELECT count(*) FROM sqlite_schema"); err == nil {
			return conn, nil
		}
		conn.Close()
	}
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCantOpen && sqlite.ErrCode(err).ToPrimary() != sqlite.ResultReadOnly {
		return nil, err
	}
	if info, statErr := os.Stat(path + "-wal"); statErr == nil && info.Size() > 0 {
		return nil, err
	}
	abs, absErr := filepath.Abs(path)
	if absErr != nil {
		return nil, absErr
	}
	uri := url.URL{Scheme: "file", Path: abs, RawQuery: "immutable=1"}
	return openConn(uri.String(), sqlite.OpenReadOnly|sqlite.OpenURI, cache)
}

// makeDurable sets what a commit's durability rests on, and asserts it: a driver that ignores one of these would lose
// acknowledged batches at the next power cut, in silence.
func makeDurable(conn *sqlite.Conn) error {
	version, err := queryText(conn, "SELECT sqlite_version()")
	if err != nil {
		return err
	}
	if !atLeast(version, oldestSQLite) {
		return fmt.Errorf("journal: built with SQLite %s, 3.51.3 or later is needed: build Pawl with a newer driver", version)
	}
	if err := execute(conn, fmt.Sprintf("PRAGMA page_size = %d", pageSize)); err != nil { // of a new file
		return err
	}
	mode, err := queryText(conn, "PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal: the file system of the database does not support write-ahead logs (journal mode is %s)", mode)
	}
	if err := execute(conn, "PRAGMA synchronous = FULL"); err != nil {
		return err
	}
	if level, err := queryText(conn, "PRAGMA synchronous"); err != nil || level != "2" {
		return errors.Join(fmt.Errorf("journal: SQLite is at synchronous level %s, 2 is needed", level), err)
	}
	return nil
}

func atLeast(version string, oldest [3]int) bool {
	parts := strings.Split(version, ".")
	for i, least := range oldest {
		n := 0
		if i < len(parts) {
			n, _ = strconv.Atoi(parts[i])
		}
		if n != least {
			return n > least
		}
	}
	return true
}

// identify refuses what is not Pawl's, or newer. empty is true for a file without contents, which may be made Pawl's.
func (j *Journal) identify(conn *sqlite.Conn) (empty bool, err error) {
	id, err := queryInt(conn, "PRAGMA application_id")
	if err != nil {
		return false, err
	}
	tables, err := queryInt(conn, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return false, err
	}
	if id == 0 && tables == 0 {
		return true, nil
	}
	if id != applicationID {
		return false, fmt.Errorf("%w: %s is another program's SQLite file; give another path", journal.ErrNoJournal, j.path)
	}
	version, err := queryInt(conn, "SELECT value FROM meta WHERE key = 'format'")
	if err != nil {
		return false, err
	}
	if version > format {
		return false, fmt.Errorf("%w: %s has format %d, this version reads up to %d: use the newer Pawl", journal.ErrNewer,
			j.path, version, format)
	}
	if version < 1 {
		return false, fmt.Errorf("%w: %s has no format version", journal.ErrCorrupt, j.path)
	}
	return false, nil
}

// create makes an empty file a journal, in one transaction.
func create(conn *sqlite.Conn) (err error) {
	defer sqlitex.Save(conn)(&err)
	if err := sqlitex.ExecuteScript(conn, schema, nil); err != nil {
		return err
	}
	if err := execute(conn, fmt.Sprintf("INSERT INTO meta VALUES ('format', %d)", format)); err != nil {
		return err
	}
	if err := execute(conn, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	return refreshViews(conn)
}

// refreshViews replaces the views for people where an older version made others.
func refreshViews(conn *sqlite.Conn) (err error) {
	defer sqlitex.Save(conn)(&err)
	for name, query := range readable() {
		want := "CREATE VIEW " + name + " AS " + query
		have := ""
		if err := sqlitex.ExecuteTransient(conn, "SELECT sql FROM sqlite_schema WHERE name = ?", &sqlitex.ExecOptions{
			Args:       []any{name},
			ResultFunc: func(s *sqlite.Stmt) error { have = s.ColumnText(0); return nil },
		}); err != nil {
			return err
		}
		if have == want {
			continue
		}
		if err := execute(conn, "DROP VIEW IF EXISTS "+name); err != nil {
			return err
		}
		if err := execute(conn, want); err != nil {
			return err
		}
	}
	return nil
}

func execute(conn *sqlite.Conn, query string) error {
	return sqlitex.ExecuteTransient(conn, query, nil)
}

func queryText(conn *sqlite.Conn, query string) (text string, err error) {
	err = sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { text = s.ColumnText(0); return nil },
	})
	return text, err
}

func queryInt(conn *sqlite.Conn, query string) (n int64, err error) {
	err = sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { n = s.ColumnInt64(0); return nil },
	})
	return n, err
}
