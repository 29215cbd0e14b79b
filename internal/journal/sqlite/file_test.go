package sqlite

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// TestReadable reads the views as a person does. Where the rows of a run are stored makes no difference.
func TestReadable(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprintf("together=%t", together), func(t *testing.T) { testReadable(t, together) })
	}
}

func testReadable(t *testing.T, together bool) {
	a := newAppender(t)
	v := &journal.View{}
	viewRun(v, 1, 1, false)
	viewRun(v, 2, 1, true)
	v.Runs[1].WorkflowID, v.Runs[1].Message, v.Runs[1].Parent = "nightly", "it's fine", v.Runs[0].ID
	v.Runs[1].Wake = 1
	v.Steps[0].Phase, v.Steps[0].Reason = core.StepTimedOut, policy.ReasonAttemptsExhausted
	v.Attempts[0].Outcome, v.Attempts[0].Limit = "timeout", policy.LimitStartToClose
	stored := "n=0"
	if together {
		v.New, stored = []core.RunID{v.Runs[0].ID}, "n=1"
	}
	a.append(journal.Batch{View: v})
	if got := table(t, a.j, "SELECT count(*) AS n FROM ended_data"); got[0] != stored {
		t.Errorf("rows of how many runs are stored together: %s, want %s", got[0], stored)
	}
	for query, want := range map[string]string{
		"SELECT * FROM runs ORDER BY id": `
id=019e7044-8801-7000-8000-000000000001 workflow=backup workflow_id=019e7044-8801-7000-8000-000000000001
	phase=succeeded created_at=2026-05-28T20:26:40.001Z ended_at=2026-05-28T20:26:40.002Z
	definition=0102030405060708090a0b0c0d0e0f10 partition=0 applied=1
id=019e7044-8802-7000-8000-000000000002 workflow=backup workflow_id=nightly phase=waiting
	created_at=2026-05-28T20:26:40.002Z wake=now message=it's fine parent=019e7044-8801-7000-8000-000000000001
	definition=0102030405060708090a0b0c0d0e0f10 partition=0 applied=1`,
		"SELECT * FROM steps ORDER BY run": `
run=019e7044-8801-7000-8000-000000000001 step=0 name=copy files kind=task phase=timed_out
	reason=attempts_exhausted attempt=1 scheduled_at=2026-05-28T20:26:40.001Z ended_at=2026-05-28T20:26:40.002Z
run=019e7044-8802-7000-8000-000000000002 step=0 name=copy files kind=sleep phase=suspended attempt=1
	scheduled_at=2026-05-28T20:26:40.002Z next_at=2026-05-28T21:26:40.002Z`,
		"SELECT * FROM attempts": `
run=019e7044-8801-7000-8000-000000000001 step=0 name=copy files attempt=1 outcome=timeout limit=startToClose
	ready_at=2026-05-28T20:26:40.001Z started_at=2026-05-28T20:26:40.001Z ended_at=2026-05-28T20:26:40.002Z
	seconds=0.0009 worker=local`,
	} {
		got := "\n" + strings.Join(table(t, a.j, query), "\n")
		want = strings.ReplaceAll(want, "\n\t", " ") // a row goes on in indented lines
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", query, got, want)
		}
	}
}

// TestReadableByOlderSQLite checks that the sqlite3 that the machine has reads the views. A file with one view that it
// does not understand is closed to it as a whole.
func TestReadableByOlderSQLite(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("there is no sqlite3")
	}
	a := newAppender(t)
	v := &journal.View{}
	viewRun(v, 1, 1, false)
	if v.Runs[0].Labels, err = core.MakeLabels(map[string]string{"z": "last", "a": "first"}); err != nil {
		t.Fatal(err)
	}
	a.append(journal.Batch{View: v})
	for query, want := range map[string]string{
		"SELECT labels FROM runs":            "a=first\nz=last",
		"SELECT name FROM steps":             "copy files",
		"SELECT name, outcome FROM attempts": "copy files|succeeded",
	} {
		out, err := exec.CommandContext(t.Context(), shell, a.j.path, query).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s gives %q, %v; want %q", query, got, err, want)
		}
	}
}

func table(t *testing.T, j *Journal, text string) (rows []string) {
	t.Helper()
	err := j.read(t.Context(), func(c *conn) error {
		return sqlitex.ExecuteTransient(c.Conn, text, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			var row []string
			for i := range s.ColumnCount() {
				if !s.ColumnIsNull(i) {
					row = append(row, s.ColumnName(i)+"="+s.ColumnText(i))
				}
			}
			rows = append(rows, strings.Join(row, " "))
			return nil
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestPlans asks SQLite how it answers the queries that must stay short with a million runs.
func TestPlans(t *testing.T) {
	a := newAppender(t)
	for query, index := range map[string]string{
		"SELECT id, wake FROM runs_data WHERE partition = 0 AND wake > 0 AND wake >= ? AND wake < ?" +
			" ORDER BY wake, id LIMIT 9": "runs_wake",
		"SELECT id, phase FROM runs_data WHERE workflow_id = ? ORDER BY id DESC": "runs_workflow_id",
		"SELECT id, phase FROM runs_data WHERE key = ? AND workflow = (SELECT id FROM names WHERE name = ?)" +
			" ORDER BY id DESC": "runs_key",
		"SELECT id FROM runs_data WHERE partition = 0 AND ended_at > 0 AND ended_at < ?" +
			" ORDER BY ended_at, id LIMIT 9": "runs_ended",
		"SELECT entries FROM history WHERE run = ? ORDER BY seq": "PRIMARY KEY",
		"SELECT step, name FROM " + allSteps + " WHERE run = ?":  "PRIMARY KEY (run=?)",
		"SELECT step FROM " + allAttempts + " WHERE run = ?":     "PRIMARY KEY (run=?)",
	} {
		plan := strings.Join(table(t, a.j, "EXPLAIN QUERY PLAN "+strings.ReplaceAll(query, "?", "5")), "\n")
		for _, short := range []string{"SCAN j VIRTUAL TABLE", "SCAN (subquery"} { // the scans of one run's rows
			plan = strings.ReplaceAll(plan, short, "")
		}
		if !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN") {
			t.Errorf("%s:\n%s", query, plan)
		}
	}
}

// TestLogStaysShort writes several times the log's length.
func TestLogStaysShort(t *testing.T) {
	a := newAppender(t)
	payload := []byte(fmt.Sprintf("%q", strings.Repeat("x", 100_000)))
	var longest int64
	for n := range 800 { // 80 MB
		a.append(journal.Batch{
			Entries: []core.Entry{{Records: []core.Record{core.SignalKept{Name: "n", Payload: payload}}}},
			View:    &journal.View{Through: uint64(n)},
		})
		longest = max(longest, fileSize(t, a.j.Path()+"-wal"))
	}
	if longest > 64<<20 {
		t.Errorf("the log grew to %d MiB", longest>>20)
	}
	if err := a.j.Close(); err != nil {
		t.Fatal(err)
	}
	if size := fileSize(t, a.j.Path()); size > 64<<20 {
		t.Errorf("the file of a trimmed journal has %d MiB", size>>20)
	}
	if report, err := Check(t.Context(), a.j.Path()); err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v, %+v", err, report)
	}
}

// TestFailedSync pretends that a sync failed: nothing is written afterwards, and every call returns that error.
func TestFailedSync(t *testing.T) {
	a := newAppender(t)
	a.append(journal.Batch{})
	a.j.mu.Lock()
	err := a.j.failed("append", sqlite.ResultIOErrFsync.ToError())
	a.j.mu.Unlock()
	if !errors.Is(err, journal.ErrLost) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("a failed sync: %v", err)
	}
	if err := a.j.Append(t.Context(), &journal.Batch{Epoch: a.lease.Epoch, Seq: 2}); !errors.Is(err, journal.ErrLost) {
		t.Errorf("append afterwards: %v", err)
	}
	if _, err := a.j.List(t.Context(), journal.Query{}); err != nil {
		t.Errorf("list afterwards: %v", err)
	}
}

func TestErrors(t *testing.T) {
	j := &Journal{path: "pawl.db"}
	for result, want := range map[sqlite.ResultCode]error{
		sqlite.ResultFull:        journal.ErrFull,
		sqlite.ResultIOErrWrite:  journal.ErrFull,
		sqlite.ResultCorrupt:     journal.ErrCorrupt,
		sqlite.ResultNotADB:      journal.ErrNoJournal,
		sqlite.ResultReadOnly:    journal.ErrReadOnly,
		sqlite.ResultCantOpen:    journal.ErrReadOnly,
		sqlite.ResultIOErrFsync:  journal.ErrLost,
		sqlite.ResultIOErrRead:   journal.ErrLost,
		sqlite.ResultIOErrSHMMap: journal.ErrLost,
	} {
		j.lost = nil
		if err := j.failed("append", result.ToError()); !errors.Is(err, want) {
			t.Errorf("%v: %v, expected %v", result, err, want)
		}
		if (j.lost != nil) != errors.Is(want, journal.ErrLost) {
			t.Errorf("%v: lost is %v", result, j.lost)
		}
	}
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		"3.51.3": true, "3.51.2": false, "3.54.1": true, "3.50.9": false, "4.0": true, "3.51": false, "": false,
	} {
		if atLeast(version, oldestSQLite) != ok {
			t.Errorf("%q: expected %v", version, ok)
		}
	}
}

// TestOtherViewsAreReplaced opens a file whose views are not those of this code.
func TestOtherViewsAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	j := opened(t, path)
	for _, q := range []string{"DROP VIEW runs", "CREATE VIEW runs AS SELECT 1 AS other"} {
		if err := exec0(j, q); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = opened(t, path)
	if rows := table(t, j, "SELECT count(*) AS n FROM pragma_table_info('runs')"); rows[0] != "n=15" {
		t.Errorf("columns of runs: %v", rows)
	}
}
