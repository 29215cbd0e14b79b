package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/journal"
)

// TestDamagedSchemaIsWritten damages names in the file's own schema, one at a time. Whoever opens and writes the file
// gets an error, or none where nothing needs the name, but no panic.
func TestDamagedSchemaIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	if err := opened(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, word := range []string{
		"owner     TEXT", "epoch     INTEGER", "TABLE partitions", "TABLE journal", "TABLE feeds", "lapsed    INTEGER",
		"name      TEXT", "seq       INTEGER", "entries BLOB", "through INTEGER", "TABLE taken", "TABLE inbox",
	} {
		if bytes.Count(whole, []byte(word)) == 0 {
			t.Errorf("the schema has no %q", word)
		}
		misspelt := "x" + word[1:]
		if table, ok := strings.CutPrefix(word, "TABLE "); ok {
			misspelt = "TABLE x" + table[1:]
		}
		damaged := bytes.ReplaceAll(whole, []byte(word), []byte(misspelt))
		bad := filepath.Join(t.TempDir(), "bad.db")
		if err := os.WriteFile(bad, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := useDamaged(t, bad); err != nil {
			refused++
			if !errors.Is(err, journal.ErrCorrupt) {
				t.Errorf("%s: %v", word, err)
			}
		}
	}
	if refused < 8 {
		t.Errorf("only %d damages were noticed", refused)
	}
}

// useDamaged does what an engine does with a file, and returns the first error.
func useDamaged(t *testing.T, path string) error {
	j, err := Open(path, Options{})
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }() // it may be damaged too much for that
	lease, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		return err
	}
	lease.Last++
	b := numbered(lease)
	b.Feeds = []journal.Feed{{Name: "f"}}
	if err := j.Append(t.Context(), b); err != nil {
		return err
	}
	lease.Last++
	b = numbered(lease)
	b.Feeds = []journal.Feed{{Name: "f", Removed: true}}
	if err := j.Append(t.Context(), b); err != nil {
		return err
	}
	if _, err := j.Renew(t.Context(), 0, lease.Epoch); err != nil {
		return err
	}
	_, err = j.Prune(t.Context(), 0, journal.Old{Before: 1 << 60, Limit: 10})
	return err
}
