package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestForms checks that a new file has the tables of version 0.1.0, and that of the words of runs, which such a file
// gets when it is opened to be written. The command opens files that 0.1.0 has written with runs.
func TestForms(t *testing.T) {
	j := opened(t, filepath.Join(t.TempDir(), "pawl.db"))
	all := table(t, j, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'view'"+
		" AND name <> 'told' ORDER BY name")
	golden.Same(t, "schema.sql", fmt.Appendf(nil, "-- format %d\n%s\n", format, strings.Join(all, "\n")))
}

// TestOlderFile checks that a file without the table of words is read, and gets the table when it is written.
func TestOlderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	j := opened(t, path)
	if err := execute(j.w.conn, "DROP TABLE told"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	older, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.List(t.Context(), journal.Query{}); err != nil {
		t.Error(err)
	}
	_ = older.Close()
	j = opened(t, path)
	if all := table(t, j, "SELECT name FROM sqlite_schema WHERE name = 'told'"); len(all) != 1 {
		t.Errorf("it has %v", all)
	}
}
