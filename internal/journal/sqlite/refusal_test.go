package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/journal"
)

// TestRefusalsSayItOnce checks that an error about a path that is not a journal names the path once, and tells what it
// is and what to do.
func TestRefusalsSayItOnce(t *testing.T) {
	write := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for _, c := range []struct {
		name       string
		make       func(path string) error
		code       error
		text, hint string
		readOnly   bool // only reading is refused; writing creates a database there
	}{
		{
			"text", write("hello, this is not a database\n"), journal.ErrNoJournal, "file is not a database",
			"not a SQLite file", false,
		},
		{"empty", write(""), journal.ErrNoJournal, "empty is empty", "starting a run", true},
		{
			"folder", func(path string) error { return os.Mkdir(path, 0o700) }, journal.ErrNoJournal, "is a directory",
			"name a file in it", false,
		},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		check := func(err error) {
			t.Helper()
			if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: %v", c.name, err)
				return
			}
			for _, once := range []string{"journal:", c.hint, path} {
				if n := strings.Count(err.Error(), once); n != 1 {
					t.Errorf("%s: %q occurs %d times in %q", c.name, once, n, err)
				}
			}
		}
		j, err := OpenReadOnly(path)
		if err == nil {
			_ = j.Close()
		}
		check(err)
		if c.readOnly {
			continue
		}
		if j, err = Open(path, Options{}); err == nil {
			_ = j.Close()
		}
		check(err)
	}
}

// TestFileTakenAway checks that nothing is acknowledged after the file was removed or replaced: writes would go to a
// file that disappears when it is closed.
func TestFileTakenAway(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pawl.db")
			j, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			lease, err := j.Acquire(t.Context(), 0, "test")
			if err != nil {
				t.Fatal(err)
			}
			lease.Last++
			if err := j.Append(t.Context(), numbered(lease)); err != nil {
				t.Fatal(err)
			}
			if err := take(path); err != nil {
				t.Skip(err) // the system does not let open files be moved
			}
			for range 2 {
				lease.Last++
				if err := j.Append(t.Context(), numbered(lease)); !errors.Is(err, journal.ErrGone) {
					t.Fatalf("append: %v", err)
				}
			}
			if _, err := j.Acquire(t.Context(), 0, "test"); !errors.Is(err, journal.ErrGone) {
				t.Fatalf("acquire: %v", err)
			}
		})
	}
}
