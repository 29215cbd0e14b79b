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
	"github.com/pawl-dev/pawl/internal/journal/sqlite/vfs"
)

// oldestSQLite is the first release in which a checkpoint and a commit at the same moment cannot damage a WAL file.
var oldestSQLite = [3]int{3, 51, 3}

// conn is a connection with its prepared statements. The driver has such a cache too, but it clears the parameters of a
// statement each time. SQLite then plans some statements again, which makes a short read ten times as slow.
type conn struct {
	*sqlite.Conn
	stmts map[string]*sqlite.Stmt
}

// stmt returns a statement that was reset. It still has the parameters of the last caller; bind all of them.
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
	driver, err := connect(path, flags)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: driver, stmts: map[string]*sqlite.Stmt{}}
	// Only other programs hold locks that block us. Wait for them, but not forever.
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

// connect opens a connection. One that writes syncs its files with less work, where the system can do that.
func connect(path string, flags sqlite.OpenFlags) (*sqlite.Conn, error) {
	system := vfs.Writer()
	if flags&sqlite.OpenReadWrite == 0 || system == "" {
		return sqlite.OpenConn(path, flags)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	uri := url.URL{Scheme: "file", Path: abs, RawQuery: "vfs=" + url.PathEscape(system)}
	return sqlite.OpenConn(uri.String(), flags|sqlite.OpenURI)
}

// openReader opens a read-only connection. In a directory that cannot be written, SQLite cannot create its shared
// memory next to the file. If there is no log either, nobody writes the file, and it is opened as one that does not
// change.
func openReader(path string) (*conn, error) {
	const cache = 8 << 20
	c, err := openConn(path, sqlite.OpenReadOnly, cache)
	if err == nil {
		if err = execute(c, "SELECT count(*) FROM sqlite_schema"); err == nil {
			return c, nil
		}
		_ = c.Close()
	}
	result := sqlite.ErrCode(err).ToPrimary()
	if result != sqlite.ResultCantOpen && result != sqlite.ResultReadOnly {
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

// makeDurable sets what makes a commit durable, and checks that it is set. A driver that ignored a setting would lose
// acknowledged batches at the next power cut, and nobody would notice before.
func makeDurable(c *conn) error {
	version, err := queryText(c, "SELECT sqlite_version()")
	if err != nil {
		return err
	}
	if !atLeast(version, oldestSQLite) {
		return fmt.Errorf("journal: built with SQLite %s, 3.51.3 or later is needed: build Pawl with a newer driver",
			version)
	}
	if err := execute(c, fmt.Sprintf("PRAGMA page_size = %d", pageSize)); err != nil { // only a new file takes it
		return err
	}
	mode, err := queryText(c, "PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf(
			"journal: the file system of the database does not support write-ahead logs (journal mode is %s)", mode)
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

// identify refuses files that are not Pawl's, or that a newer Pawl has written. empty is true for a file without
// contents, which may become a journal.
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
		return true, nil
	}
	if id != applicationID {
		return false, fmt.Errorf("%w: %s is another program's SQLite file; give another path",
			journal.ErrNoJournal, j.path)
	}
	version, err := queryInt(c, "SELECT value FROM meta WHERE key = 'format'")
	if err != nil {
		return false, err
	}
	switch {
	case version > format:
		return false, fmt.Errorf("%w: %s has format %d, this version reads format %d: use the newer Pawl",
			journal.ErrNewer, j.path, version, format)
	case version < format:
		return false, fmt.Errorf("%w: %s has format %d, which no release of Pawl has written; this one reads"+
			" format %d: restore a backup", journal.ErrCorrupt, j.path, version, format)
	}
	count, err := queryInt(c, "SELECT value FROM meta WHERE key = 'partitions'")
	if err != nil {
		return false, err
	}
	if count < 1 || count > journal.MostPartitions {
		return false, fmt.Errorf("%w: %s says that it has %d partitions: restore a backup",
			journal.ErrCorrupt, j.path, count)
	}
	j.count = int(count)
	return false, nil
}

// create makes an empty file a journal, in one transaction.
func create(c *conn, partitions int) (err error) {
	defer sqlitex.Save(c.Conn)(&err)
	tables := schema + messageTables + feedTable + labelTable + documentTable + largeTable + endedTable +
		toldTable + ";" + listIndexes
	for _, script := range []string{
		tables,
		fmt.Sprintf("INSERT INTO meta VALUES ('partitions', %d), ('format', %d), ('%s', '%s');", partitions, format,
			databaseKey, newID()),
		fmt.Sprintf("PRAGMA application_id = %d;", applicationID),
	} {
		if err := sqlitex.ExecuteScript(c.Conn, script, nil); err != nil {
			return err
		}
	}
	return refreshViews(c)
}

// refreshViews replaces the views for people that differ from those of this code.
func refreshViews(c *conn) (err error) {
	defer sqlitex.Save(c.Conn)(&err)
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
