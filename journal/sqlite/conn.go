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

	"github.com/pawl-dev/pawl/internal/journal"
)

// oldestSQLite is the first release without a bug in which a checkpoint and a commit at one moment damage a WAL file.
var oldestSQLite = [3]int{3, 51, 3}

// conn is a connection with its prepared statements. The driver's own cache clears a statement's parameters each time,
// upon which SQLite plans anew those whose plan may depend on them: ten times the price of a short read.
type conn struct {
	*sqlite.Conn
	stmts map[string]*sqlite.Stmt
	seed  uint32 // of checksums, see seedOf
}

// stmt returns a statement, which has been reset; its parameters are the last caller's until they are bound again.
func (c *conn) stmt(text string) (*sqlite.Stmt, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	s, err := c.Prepare(text)
	if err == nil {
		c.stmts[text] = s
	}
	return s, err
}

// openConn opens one connection whose page cache holds at most that many bytes.
func openConn(path string, flags sqlite.OpenFlags, cache int) (*conn, error) {
	driver, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: driver, stmts: map[string]*sqlite.Stmt{}}
	// Only foreign programs ever hold a lock that is in our way; they are waited for, but not for ever.
	c.SetBusyTimeout(5 * time.Second)
	for _, q := range []string{
		fmt.Sprintf("PRAGMA cache_size = -%d", cache>>10),
		"PRAGMA temp_store = MEMORY",
		"PRAGMA wal_autocheckpoint = 0",
	} {
		if err := execute(c, q); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	return c, nil
}

// openReader opens a read-only connection. A file in a directory that cannot be written has no shared memory beside it;
// where there is no log either, nobody writes it and it can be read as it is.
func openReader(path string) (*conn, error) {
	const cache = 8 << 20
	c, err := openConn(path, sqlite.OpenReadOnly, cache)
	if err == nil {
		if err = execute(c, "SELECT count(*) FROM sqlite_schema"); err == nil {
			return c, nil
		}
		_ = c.Close()
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
func makeDurable(c *conn) error {
	version, err := queryText(c, "SELECT sqlite_version()")
	if err != nil {
		return err
	}
	if !atLeast(version, oldestSQLite) {
		return fmt.Errorf("journal: built with SQLite %s, 3.51.3 or later is needed: build Pawl with a newer driver", version)
	}
	if err := execute(c, fmt.Sprintf("PRAGMA page_size = %d", pageSize)); err != nil { // of a new file
		return err
	}
	mode, err := queryText(c, "PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal: the file system of the database does not support write-ahead logs (journal mode is %s)", mode)
	}
	if err := execute(c, "PRAGMA synchronous = FULL"); err != nil {
		return err
	}
	if level, err := queryText(c, "PRAGMA synchronous"); err != nil || level != "2" {
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
func (j *Journal) identify(c *conn) (empty bool, err error) {
	id, err := queryInt(c, "PRAGMA application_id")
	if err != nil {
		return false, err
	}
	tables, err := queryInt(c, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return false, err
	}
	if id == 0 && tables == 0 {
		j.seed = seedOf(format)
		c.seed = j.seed
		return true, nil
	}
	if id != applicationID {
		return false, fmt.Errorf("%w: %s is another program's SQLite file; give another path", journal.ErrNoJournal, j.path)
	}
	version, err := queryInt(c, "SELECT value FROM meta WHERE key = 'format'")
	if err != nil {
		return false, err
	}
	if version > format {
		return false, fmt.Errorf("%w: %s has format %d, this version reads up to %d: use the newer Pawl", journal.ErrNewer,
			j.path, version, format)
	}
	if version < 1 {
		return false, fmt.Errorf("%w: %s has no format version: restore a backup", journal.ErrCorrupt, j.path)
	}
	j.seed = seedOf(version)
	c.seed = j.seed
	return false, nil
}

// create makes an empty file a journal, in one transaction.
func create(c *conn) (err error) {
	defer sqlitex.Save(c.Conn)(&err)
	if err := sqlitex.ExecuteScript(c.Conn, schema, nil); err != nil {
		return err
	}
	if err := execute(c, fmt.Sprintf("INSERT INTO meta VALUES ('format', %d)", format)); err != nil {
		return err
	}
	if err := execute(c, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	return refreshViews(c)
}

// refreshViews replaces the views for people where an older version made others, and adds what it did not have.
func refreshViews(c *conn) (err error) {
	defer sqlitex.Save(c.Conn)(&err)
	if err := execute(c, feedTable); err != nil {
		return err
	}
	for name, query := range readable() {
		want := "CREATE VIEW " + name + " AS " + query
		have := ""
		if err := sqlitex.ExecuteTransient(c.Conn, "SELECT sql FROM sqlite_schema WHERE name = ?", &sqlitex.ExecOptions{
			Args:       []any{name},
			ResultFunc: func(s *sqlite.Stmt) error { have = s.ColumnText(0); return nil },
		}); err != nil {
			return err
		}
		if have == want {
			continue
		}
		if err := execute(c, "DROP VIEW IF EXISTS "+name); err != nil {
			return err
		}
		if err := execute(c, want); err != nil {
			return err
		}
	}
	return nil
}

// refreshKeyIndex replaces the index of idempotency keys where an older version made another one. Older versions go on with
// either.
func refreshKeyIndex(c *conn) (err error) {
	defer sqlitex.Save(c.Conn)(&err)
	have, err := queryText(c, "SELECT sql FROM sqlite_schema WHERE name = 'runs_key'")
	if err != nil || have == keyIndex {
		return err
	}
	if err := execute(c, "DROP INDEX IF EXISTS runs_key"); err != nil {
		return err
	}
	return execute(c, keyIndex)
}

func execute(c *conn, query string) error {
	return sqlitex.ExecuteTransient(c.Conn, query, nil)
}

func queryText(c *conn, query string) (text string, err error) {
	err = sqlitex.ExecuteTransient(c.Conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { text = s.ColumnText(0); return nil },
	})
	return text, err
}

func queryInt(c *conn, query string) (n int64, err error) {
	err = sqlitex.ExecuteTransient(c.Conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { n = s.ColumnInt64(0); return nil },
	})
	return n, err
}
