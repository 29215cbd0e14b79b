package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// sound checks a copy, and returns its last batch.
func sound(t *testing.T, path string) uint64 {
	t.Helper()
	report, err := Check(t.Context(), path)
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	return report.Partitions[0].Last
}

// TestBackupWhileWritten checks that a backup is one moment of a database that is written meanwhile: what was
// acknowledged before it began is there, and a batch is there with all that it has or not at all.
func TestBackupWhileWritten(t *testing.T) {
	a := newAppender(t)
	path := a.j.path
	var acknowledged atomic.Uint64
	written, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 1; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			e := created(n, false)
			a.append(journal.Batch{Encoded: core.AppendEntry(nil, &e)})
			acknowledged.Store(a.lease.Last)
			select {
			case written <- struct{}{}:
			default: // nobody waits for it
			}
		}
	}()
	previous := uint64(0)
	for n := range 8 {
		before := acknowledged.Load()
		for before < previous+20 { // something is written between two copies
			<-written
			before = acknowledged.Load()
		}
		to := filepath.Join(t.TempDir(), "copy.db")
		if err := Backup(t.Context(), path, to); err != nil {
			t.Fatal(err)
		}
		last := sound(t, to)
		if after := acknowledged.Load() + 1; last < before || last > after {
			t.Errorf("copy %d has %d batches; %d were acknowledged before it and %d after it", n, last, before, after)
		}
		info, err := os.Stat(to)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v, %v: others may read the copy", info, err)
		}
		previous = last
	}
	close(over)
	<-ended
}

// TestBackupIsRefused checks that a refused backup leaves nothing behind and changes no file that was there.
func TestBackupIsRefused(t *testing.T) {
	a := newAppender(t)
	a.append(journal.Batch{})
	dir := t.TempDir()
	there := filepath.Join(dir, "there.db")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	noDatabase := filepath.Join(dir, "text")
	if err := os.WriteFile(noDatabase, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	interrupted := filepath.Join(dir, "interrupted.db")
	if err := os.WriteFile(interrupted+".part", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{a.j.path, there, "exists already"},
		{filepath.Join(dir, "none.db"), filepath.Join(dir, "of-none.db"), "none.db"},
		{noDatabase, filepath.Join(dir, "of-text.db"), "database"},
		{a.j.path, filepath.Join(dir, "no", "folder.db"), "no such file"},
		{a.j.path, interrupted, "remove it"},
	} {
		if err := Backup(t.Context(), c.from, c.to); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", c.to, err, c.says)
		}
		if _, err := os.Lstat(c.to); c.to != there && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", c.to, err)
		}
		if _, err := os.Lstat(c.to + ".part"); c.to != interrupted && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s.part is there: %v", c.to, err)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}
