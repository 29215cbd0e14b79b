package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/sqlite"
)

// TestOpen checks that an engine works with a file that the program opened, and nobody else gets the file meanwhile.
func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.db")
	j, err := sqlite.Open(path, sqlite.Options{Command: "shop --serve", Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n := j.PartitionCount(); n != 2 {
		t.Errorf("%d partitions, want 2", n)
	}
	second, err := sqlite.Open(path, sqlite.Options{})
	if second != nil || !errors.Is(err, sqlite.ErrHeld) || !strings.Contains(err.Error(), "shop --serve") {
		t.Errorf("a second one: %v, %v", second, err)
	}
	patience, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // so long Open waits for the file
	defer cancel()
	if _, err := pawl.Open(patience, pawl.Config{Database: "sqlite:" + path}); !errors.Is(err, sqlite.ErrHeld) {
		t.Errorf("an engine that opens the file itself: %v", err)
	}

	double := pawl.Define("double", func(_ pawl.Context, n int) (int, error) { return 2 * n, nil })
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	run, err := double.Start(t.Context(), e, "", 21)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := run.Result(t.Context()); n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
