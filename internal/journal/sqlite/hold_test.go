package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// hold plays the other process of these tests: it opens the database and appends for ever, printing each acknowledged
// batch.
func hold(path string) {
	j, err := Open(path, Options{Command: "pawl run flow.yaml", Since: 1_780_000_000_000_000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	lease, err := j.Acquire(context.Background(), 0, "child")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	for {
		lease.Last++
		if err := j.Append(context.Background(), numbered(lease)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(lease.Last)
	}
}

// numbered returns a batch whose whole content follows from its number. It contains rows of the view, and lets the
// journal delete batches that are more than a hundred behind.
func numbered(lease journal.Lease) *journal.Batch {
	n := int(lease.Last)
	b := &journal.Batch{
		Epoch: lease.Epoch, Seq: lease.Last, Entries: []core.Entry{created(n, false), ended1(n)}, View: &journal.View{},
	}
	viewRun(b.View, n, lease.Last, false)
	b.Definitions = []journal.Definition{{
		ID: b.View.Runs[0].Definition, Kind: "flow", Name: "backup",
		Source: []byte("steps: []"),
	}}
	if n > 100 {
		b.View.Through = uint64(n - 100)
	}
	return b
}

// checkNumbered checks that a database holds the numbered batches up to one that is not before acknowledged.
func checkNumbered(t *testing.T, j *Journal, acknowledged uint64) journal.Lease {
	t.Helper()
	lease, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	if lease.Last < acknowledged {
		t.Fatalf("batch %d was acknowledged, the journal ends with batch %d", acknowledged, lease.Last)
	}
	next := lease.Through
	err = j.Tail(t.Context(), 0, lease.Through, func(seq uint64, entries []core.Entry) error {
		next++
		if seq != next || len(entries) != 2 || entries[0].Run != journaltest.RunID(int(seq)) {
			return fmt.Errorf("batch %d: %v", seq, entries)
		}
		return nil
	})
	if err != nil || next != lease.Last {
		t.Fatalf("the tail ends with batch %d of %d: %v", next, lease.Last, err)
	}
	rows := 0
	err = j.EachRun(t.Context(), func(r journal.Stored) error {
		rows++
		if r.Row.ID != journaltest.RunID(rows) || r.History.Applied != uint64(rows) ||
			len(r.History.Entries) != 2 || len(r.Steps) != 1 {
			return fmt.Errorf("run %d: %+v with %d entries, %d steps", rows, r.Row,
				len(r.History.Entries), len(r.Steps))
		}
		return nil
	})
	if err != nil || rows != int(lease.Last) {
		t.Fatalf("%d rows of %d: %v", rows, lease.Last, err)
	}
	return lease
}

// child starts the other process. It returns the process's output as soon as the process holds the database.
func child(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAWL_TEST_HOLD="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "held" {
		t.Fatalf("the other process says %q", lines.Text())
	}
	return cmd, lines
}

func TestHeldByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	cmd, lines := child(t, path)
	if !lines.Scan() {
		t.Fatal("no batch was acknowledged")
	}
	_, err := Open(path, Options{})
	var held *HeldError
	if !errors.Is(err, journal.ErrHeld) || !errors.As(err, &held) || held.Holder.PID != cmd.Process.Pid {
		t.Fatalf("open: %v", err)
	}
	want := fmt.Sprintf("database %s is held by pid %d (pawl run flow.yaml) since 2026-05-28 20:26:40 UTC; stop it "+
		"or wait",
		path, cmd.Process.Pid)
	if err.Error() != want {
		t.Errorf("it says  %s\nexpected %s", err, want)
	}
	if h, ok := Held(path); !ok || h.PID != cmd.Process.Pid {
		t.Errorf("holder %+v, %v", h, ok)
	}

	// Reading is possible meanwhile.
	j, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if page, err := j.List(t.Context(), journal.Query{}); err != nil || len(page.Runs) == 0 {
		t.Errorf("list: %v, %d runs", err, len(page.Runs))
	}
	if h, err := j.History(t.Context(), journaltest.RunID(1)); err != nil || len(h.Entries) != 2 {
		t.Errorf("history: %v, %d entries", err, len(h.Entries))
	}
	if err := j.Append(t.Context(), &journal.Batch{Seq: 1}); !errors.Is(err, journal.ErrReadOnly) {
		t.Errorf("append: %v", err)
	}
	if _, err := j.Acquire(t.Context(), 0, "me"); !errors.Is(err, journal.ErrReadOnly) {
		t.Errorf("acquire: %v", err)
	}
	report, err := Check(t.Context(), path)
	if err != nil || len(report.Problems) > 0 || report.Holder.PID != cmd.Process.Pid {
		t.Errorf("check: %v, %+v", err, report)
	}
}

func TestHeldByThisProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	j := opened(t, path)
	if _, err := Open(path, Options{}); !errors.Is(err, journal.ErrHeld) {
		t.Fatalf("a second open: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, path)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(left) > 4 { // the file, its log, the log's index, the lock
		t.Errorf("files %v: %v", left, err)
	}
}

// TestCheckIsOfOneMoment checks that a check sees one snapshot of the file, even if another process opens the file
// meanwhile and writes.
func TestCheckIsOfOneMoment(t *testing.T) {
	j := opened(t, filepath.Join(t.TempDir(), "pawl.db"))
	lease, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	done, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-done:
				stopped <- nil
				return
			default:
			}
			lease.Last++
			if err := j.Append(context.Background(), numbered(lease)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 10 {
		r := &Report{Path: j.Path()}
		if err := j.examine(t.Context(), r); err != nil || len(r.Problems) > 0 {
			t.Errorf("check: %v, %q", err, r.Problems)
			break
		}
	}
	close(done)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestKill kills the other process at random instants: everything that it printed as acknowledged is in the file.
func TestKill(t *testing.T) {
	rounds := nightly.Few(2, 5)
	path := filepath.Join(t.TempDir(), "pawl.db")
	for range rounds {
		cmd, lines := child(t, path)
		var acknowledged uint64
		for range rand.IntN(300) {
			if !lines.Scan() {
				t.Fatal("the other process ended")
			}
			n, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil {
				t.Fatal(lines.Text())
			}
			acknowledged = n
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // the lines that it had printed before it died
			if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil && strings.TrimSpace(lines.Text()) != "" {
				acknowledged = max(acknowledged, n)
			}
		}
		cmd.Wait()
		j, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkNumbered(t, j, acknowledged)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := Check(t.Context(), path); err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v, %+v", err, report)
	}
}

// TestLookingIsNotHolding checks that asking whether a database is held does not keep others from opening it.
func TestLookingIsNotHolding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	done := make(chan struct{})
	looked := make(chan int)
	for range 2 {
		go func() {
			n := 0
			for ; ; n++ {
				select {
				case <-done:
					looked <- n
					return
				default:
					Held(path)
				}
			}
		}()
	}
	for i := range 500 {
		l, err := lock(path, Holder{PID: 1})
		if err != nil {
			t.Errorf("round %d: %v", i, err)
			break
		}
		if h, held := Held(path); !held || h.PID != 1 {
			t.Errorf("round %d: %+v, %v", i, h, held)
			break
		}
		_ = l.f.Close() // as a crash does: the file stays
	}
	close(done)
	if <-looked+<-looked == 0 {
		t.Error("nobody looked")
	}
}
