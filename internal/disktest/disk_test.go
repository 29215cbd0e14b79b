package disktest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/disktest"
)

// TestCut cuts the power at different levels of SQLite's care. Only at the highest every acknowledged row is left, and
// without any care the file is damaged now and then.
func TestCut(t *testing.T) {
	for _, level := range []string{"FULL", "NORMAL", "OFF"} {
		lost, damaged := 0, 0
		for seed := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, 0))
			d := disktest.New(t)
			fill(t, d, level)
			left, marks := d.Cut(t, d.CutAnywhere(random), random)
			rows, err := count(left)
			switch {
			case err != nil:
				damaged++
			case rows < len(marks):
				lost++
			}
		}
		t.Logf("%s: rows were lost %d times, the file was damaged %d times", level, lost, damaged)
		if safe := lost+damaged == 0; safe != (level == "FULL") || (damaged > 0) != (level == "OFF") {
			t.Errorf("%s: rows were lost %d times, the file was damaged %d times", level, lost, damaged)
		}
	}
}

// fill adds rows one by one, and marks each.
func fill(t *testing.T, d *disktest.Disk, level string) {
	t.Helper()
	c, err := sqlite.OpenConn(d.Path("a.db"), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, text := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = " + level, "PRAGMA wal_autocheckpoint = 7",
		"CREATE TABLE t (n, filler)",
	} {
		if err := sqlitex.ExecuteTransient(c, text, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		if err := sqlitex.Execute(c, "INSERT INTO t VALUES (1, zeroblob(3000))", nil); err != nil {
			t.Fatal(err)
		}
		d.Mark("inserted")
	}
}

// count returns how many rows a file has. It has none before the table was made.
func count(d *disktest.Disk) (rows int, err error) {
	c, err := sqlite.OpenConn(d.Path("a.db"), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	first := func(text string) (value string, err error) {
		err = sqlitex.ExecuteTransient(c, text, &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error { value = s.ColumnText(0); return nil },
		})
		return value, err
	}
	if verdict, err := first("PRAGMA integrity_check"); err != nil || verdict != "ok" {
		return 0, fmt.Errorf("%s: %w", verdict, errors.Join(err, errors.New("damaged")))
	}
	if tables, err := first("SELECT count(*) FROM sqlite_schema"); err != nil || tables == "0" {
		return 0, err
	}
	text, err := first("SELECT count(*) FROM t")
	if err == nil {
		_, err = fmt.Sscan(text, &rows)
	}
	return rows, err
}

// TestFault makes a write, a sync and a read fail.
func TestFault(t *testing.T) {
	d := disktest.New(t)
	fill(t, d, "FULL")
	for op, want := range map[disktest.Op]sqlite.ResultCode{
		disktest.Write: sqlite.ResultIOErrWrite, disktest.Sync: sqlite.ResultIOErrFsync,
		disktest.Read: sqlite.ResultIOErrRead,
	} {
		d.Fault(nil)
		c, err := sqlite.OpenConn(d.Path("a.db"), sqlite.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := sqlitex.ExecuteTransient(c, "PRAGMA synchronous = FULL", nil); err != nil {
			t.Fatal(err)
		}
		d.Fault(func(now disktest.Op, file string) error {
			if now == op {
				return errors.New("broken")
			}
			return nil
		})
		err = sqlitex.ExecuteTransient(c, "INSERT INTO t SELECT n, filler FROM t", nil)
		if sqlite.ErrCode(err) != want {
			t.Errorf("%v: %v", want, err)
		}
		d.Fault(nil)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
