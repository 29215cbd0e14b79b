package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestCutBetweenCommits copies the files between two commits at random, with checkpoints under way.
func TestCutBetweenCommits(t *testing.T) {
	a := newAppender(t)
	for round := range 3 {
		for range 200 + rand.IntN(400) {
			a.lease.Last++
			if err := a.j.Append(t.Context(), numbered(a.lease)); err != nil {
				t.Fatal(err)
			}
		}
		cut := filepath.Join(t.TempDir(), fmt.Sprintf("cut%d.db", round))
		select {
		case a.j.check.wake <- struct{}{}:
		default:
		}
		// While the lock is held, the log does not start from its beginning. The checkpointer may be copying it.
		a.j.mu.Lock()
		copyFiles(t, a.j.Path(), cut)
		a.j.mu.Unlock()
		j, err := Open(cut, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if lease := checkNumbered(t, j, a.lease.Last); lease.Last != a.lease.Last {
			t.Errorf("the copy ends with batch %d, the journal with %d", lease.Last, a.lease.Last)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFull fills the file up to a limit: an append fails as a whole, and the journal works again when there is room.
func TestFull(t *testing.T) {
	a := newAppender(t)
	checkFull(t, a, func(limited bool) {
		pages := int64(1 << 30)
		if limited {
			n, err := queryInt(a.j.w.conn, "PRAGMA page_count")
			if err != nil {
				t.Fatal(err)
			}
			pages = n + 20
		}
		if err := exec0(a.j, fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	})
}

func exec0(j *Journal, query string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return execute(j.w.conn, query)
}

// TestFullDisk fills a small file system. It needs the right to mount one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec1("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", dir); err != nil {
		t.Skipf("no file system of its own: %v: %s", err, out)
	}
	a := &appender{TB: t}
	t.Cleanup(func() {
		if out, err := exec1("umount", dir); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	a.j = opened(t, filepath.Join(dir, "pawl.db"))
	var err error
	if a.lease, err = a.j.Acquire(t.Context(), 0, "test"); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	checkFull(t, a, func(limited bool) {
		if !limited {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			return
		}
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := io.Copy(f, io.LimitReader(zeros{}, 2<<20)); err != nil {
			t.Fatal(err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func exec1(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// checkFull appends until the storage is full, makes room, and appends again.
func checkFull(t *testing.T, a *appender, limit func(limited bool)) {
	t.Helper()
	one := func() error {
		next := a.lease
		next.Last++
		err := a.j.Append(t.Context(), numbered(next))
		if err == nil {
			a.lease = next
		}
		return err
	}
	for range 10 {
		if err := one(); err != nil {
			t.Fatal(err)
		}
	}
	limit(true)
	var err error
	for range 100_000 {
		if err = one(); err != nil {
			break
		}
	}
	if !errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), "free some space") {
		t.Fatalf("a full storage: %v", err)
	}
	for range 3 {
		if err := one(); !errors.Is(err, journal.ErrFull) {
			t.Fatalf("again: %v", err)
		}
	}
	// Reading goes on.
	if _, err := a.j.List(t.Context(), journal.Query{}); err != nil {
		t.Errorf("list: %v", err)
	}
	limit(false)
	for range 10 {
		if err := one(); err != nil {
			t.Fatalf("with room again: %v", err)
		}
	}
	a.release(t)
	checkNumbered(t, a.j, a.lease.Last)
}

func TestReadOnlyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	a := opened(t, path)
	lease, err := a.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	lease.Last++
	if err := a.Append(t.Context(), numbered(lease)); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 && runtime.GOOS == "linux" { // root may write in spite of the permissions
		dir := filepath.Dir(path)
		if out, err := exec1("mount", "--bind", dir, dir); err != nil {
			t.Skipf("%v: %s", err, out)
		}
		defer exec1("umount", dir)
		if out, err := exec1("mount", "-o", "remount,ro,bind", dir); err != nil {
			t.Skipf("%v: %s", err, out)
		}
	} else {
		for name, mode := range map[string]os.FileMode{path: 0o444, filepath.Dir(path): 0o555} {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(name, 0o755)
		}
	}
	if _, err := Open(path, Options{}); !errors.Is(err, journal.ErrReadOnly) {
		t.Errorf("open: %v", err)
	}
	j, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if page, err := j.List(t.Context(), journal.Query{}); err != nil || len(page.Runs) != 1 {
		t.Errorf("list: %v, %d runs", err, len(page.Runs))
	}
}

func TestNotAJournal(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	conn, err := openConn(foreign, sqlite.OpenReadWrite|sqlite.OpenCreate, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := execute(conn, "CREATE TABLE t (a)"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	before, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, foreign} {
		if _, err := Open(path, Options{}); !errors.Is(err, journal.ErrNoJournal) {
			t.Errorf("open %s: %v", filepath.Base(path), err)
		}
		if _, err := OpenReadOnly(path); !errors.Is(err, journal.ErrNoJournal) {
			t.Errorf("look at %s: %v", filepath.Base(path), err)
		}
	}
	if after, err := os.ReadFile(foreign); err != nil || string(after) != string(before) {
		t.Errorf("the foreign file was changed: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "no", "such", "pawl.db"), Options{}); err == nil ||
		!strings.Contains(err.Error(), "create it first") {
		t.Errorf("a missing directory: %v", err)
	}
	if _, err := OpenReadOnly(filepath.Join(dir, "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	opened(t, empty)
}

// TestOtherFormats checks that a file of a format that this code does not know says which one it has, which one is
// known, and what to do.
func TestOtherFormats(t *testing.T) {
	for format, want := range map[int]struct {
		err  error
		text string
	}{
		0: {journal.ErrCorrupt, "has format 0, which no release of Pawl has written; this one reads format 1: restore"},
		2: {journal.ErrNewer, "has format 2, this version reads format 1: use the newer Pawl"},
	} {
		path := filepath.Join(t.TempDir(), "pawl.db")
		if err := opened(t, path).Close(); err != nil {
			t.Fatal(err)
		}
		execAll(t, path, fmt.Sprintf("UPDATE meta SET value = %d WHERE key = 'format'", format))
		_, err := Open(path, Options{})
		if !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("open format %d: %v", format, err)
		}
		if _, err := OpenReadOnly(path); !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("look at format %d: %v", format, err)
		}
	}
}

// TestDamagedSchema checks that a misspelt name in the file's own schema is reported as damage, whatever error SQLite
// returns.
func TestDamagedSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	if err := opened(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const column = "sum     INTEGER NOT NULL,    -- CRC-32C"
	if err := os.WriteFile(path, bytes.ReplaceAll(whole, []byte(column), []byte("x"+column[1:])), 0o644); err != nil {
		t.Fatal(err)
	}
	j, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	err = j.Tail(t.Context(), 0, 0, func(uint64, []core.Entry) error { return nil })
	if !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("tail: %v", err)
	}
}

// TestFlippedBytes damages a file in many places: nothing panics, and no damaged blob is read as an intact one.
func TestFlippedBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	a := &appender{TB: t, j: opened(t, path)}
	var err error
	if a.lease, err = a.j.Acquire(t.Context(), 0, "test"); err != nil {
		t.Fatal(err)
	}
	const batches = 60
	for range batches {
		a.lease.Last++
		if err := a.j.Append(t.Context(), numbered(a.lease)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const damages = 60
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for round := range damages {
		damaged := append([]byte(nil), whole...)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(damaged))
			for damaged[at] == 0 { // most of a small file's pages are empty
				at = random.IntN(len(damaged))
			}
			damaged[at] ^= byte(1 + random.IntN(255))
		}
		bad := filepath.Join(t.TempDir(), fmt.Sprintf("bad%d.db", round))
		if err := os.WriteFile(bad, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		report, err := Check(t.Context(), bad)
		if err != nil || len(report.Problems) > 0 {
			found++
		}
		j, err := OpenReadOnly(bad)
		if err != nil {
			continue
		}
		if err := j.Tail(t.Context(), 0, 0, func(seq uint64, entries []core.Entry) error {
			want := numbered(journal.Lease{Last: seq}).Entries
			if len(entries) == 0 {
				t.Errorf("batch %d was read as an empty one", seq)
			} else if fmt.Sprintf("%+v", entries[0].Records[0]) != fmt.Sprintf("%+v", want[0].Records[0]) {
				t.Errorf("batch %d was read as %+v", seq, entries)
			}
			return nil
		}); err != nil && sqlite.ErrCode(err) == sqlite.ResultError && !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("tail: %v", err)
		}
		j.Close()
	}
	t.Logf("%d of %d damages were noticed by Check; the others lie in unused bytes, names or rows", found, damages)
	if found < damages/2 {
		t.Errorf("only %d of %d damages were noticed", found, damages)
	}
}

// TestEmptiedRow checks that a row that has lost its contents must not look like an empty batch.
func TestEmptiedRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	j := opened(t, path)
	lease, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	lease.Last++
	if err := j.Append(t.Context(), numbered(lease)); err != nil {
		t.Fatal(err)
	}
	lease.Last++ // an empty one is none the worse for it
	if err := j.Append(t.Context(), &journal.Batch{Epoch: lease.Epoch, Seq: lease.Last}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), path); err != nil || len(r.Problems) > 0 || r.Format != format {
		t.Fatalf("%+v, %v", r, err)
	}
	execAll(t, path, "UPDATE journal SET sum = 0, entries = x'' WHERE id & 1 = 1")
	j = opened(t, path)
	err = j.Tail(t.Context(), 0, 0, func(uint64, []core.Entry) error { return nil })
	if !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("the tail of an emptied row: %v", err)
	}
}

func execAll(t *testing.T, path, statements string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := sqlitex.ExecuteScript(c, statements, nil); err != nil {
		t.Fatal(err)
	}
}

// release gives the partition back, so that another owner can have it.
func (a *appender) release(t *testing.T) {
	t.Helper()
	if err := a.j.Release(t.Context(), 0, a.lease.Epoch); err != nil {
		t.Fatal(err)
	}
}
