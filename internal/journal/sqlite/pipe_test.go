//go:build unix

package sqlite

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/journal"
)

// TestPipeIsNoJournal checks that a named pipe is refused: opening it would take until somebody writes into it.
func TestPipeIsNoJournal(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{pipe, "/dev/null"} {
		if _, err := OpenReadOnly(path); !errors.Is(err, journal.ErrNoJournal) {
			t.Errorf("look at %s: %v", path, err)
		}
		if _, err := Open(path, Options{}); !errors.Is(err, journal.ErrNoJournal) {
			t.Errorf("open %s: %v", path, err)
		}
		if _, err := Check(t.Context(), path); !errors.Is(err, journal.ErrNoJournal) {
			t.Errorf("check %s: %v", path, err)
		}
	}
}
