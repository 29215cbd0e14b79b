package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("PAWL_TEST_HOLD"); path != "" {
		hold(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// opened opens a database that the test's end closes.
func opened(t testing.TB, path string) *Journal { return openedWith(t, path, 0) }

func openedWith(t testing.TB, path string, partitions int) *Journal {
	t.Helper()
	j, err := Open(path, Options{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// copyFiles copies the database's files as they are on the disk at this moment, as a crash would leave them.
func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		src, err := os.Open(from + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		dst, err := os.Create(to + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(dst, src); err != nil {
			t.Fatal(err)
		}
		src.Close()
		dst.Close()
	}
}

func TestJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Store {
		path := filepath.Join(t.TempDir(), "pawl.db")
		j := openedWith(t, path, 3)
		return journaltest.Store{
			Journal: j,
			Reopen: func() journal.Journal {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				j = opened(t, path)
				return j
			},
			Crash: func() journal.Journal {
				copyFiles(t, path, path+".crashed")
				path += ".crashed"
				j = opened(t, path)
				return j
			},
			Rows: func(run core.RunID) ([]journal.StepRow, []journal.AttemptRow) {
				steps, err := j.Steps(context.Background(), run)
				if err != nil {
					t.Error(err)
				}
				attempts, err := j.Attempts(context.Background(), run)
				if err != nil {
					t.Error(err)
				}
				return steps, attempts
			},
		}
	})
}
