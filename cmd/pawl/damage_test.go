package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// oldDatabase returns the database that TestFlowFile opens, in a directory of the test's own: one open run, of-old.
func oldDatabase(t *testing.T) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "old.db")
	unzip(t, filepath.Join("testdata", "0.1.0", "flow.db.gz"), path)
	return dir, path
}

// pawlFails runs the command on the database and returns what it printed; it fails with that exit status.
func pawlFails(t *testing.T, dir string, status int, args ...string) string {
	t.Helper()
	cmd := command(t, dir, append(args, "--database", "sqlite:old.db")...)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != status {
		t.Errorf("pawl %v: exit status %d, want %d\n%s", args, cmd.ProcessState.ExitCode(), status, out)
	}
	return string(out)
}

// TestDoctorFindsWrongRows changes what SQLite cannot know to be wrong: every column that the engine or a person reads
// is held against the history.
func TestDoctorFindsWrongRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ change, want string }{
		{"UPDATE runs_data SET wake = 0", "Wake is - in its row"},
		{"UPDATE runs_data SET deadline = 1000000", "Deadline is 1970-01-01T00:00:01"},
		{"UPDATE runs_data SET workflow_id = 'other'", "WorkflowID is other in its row and of-old in its history"},
		{"UPDATE runs_data SET message = 'x'", "Message is x"},
		{
			"UPDATE runs_data SET wake = 2, message = 'the run is set aside: a bug'",
			"of old: the run is set aside: a bug (the next start of an engine tries again)",
		},
		{"UPDATE steps_data SET next_at = next_at + 3600000000 WHERE name = 'nap'", `step "nap": NextAt is`},
		{
			"UPDATE steps_data SET phase = 6 WHERE name = 'first'",
			`step "first": Phase is failed in its row and succeeded in its history`,
		},
		{"DELETE FROM steps_data WHERE name = 'gate'", `step "gate": Name is  in its row and gate in its history`},
		{"UPDATE attempts_data SET started_at = started_at + 1 WHERE step = 0", "attempt 1 of step 0: Started is"},
		{
			"DELETE FROM attempts_data WHERE step = 1",
			"attempt 1 of step 1: Attempt is 0 in its row and 1 in its history",
		},
		{
			"INSERT INTO steps_data SELECT run, step + 100, name, kind, phase, reason, attempt, scheduled_at, " +
				"ended_at, next_at, deadline, message FROM steps_data WHERE step = 0",
			"1 row of steps or attempts that its history does not know",
		},
		{
			"UPDATE definitions SET source = replace(source, 'hello', 'hullo')",
			`the stored text of flow "old" is not the one it was started with`,
		},
	} {
		t.Run(c.change, func(t *testing.T) {
			dir, path := oldDatabase(t)
			change(t, path, c.change)
			if out := pawlFails(t, dir, exitFailed, "doctor"); !strings.Contains(out, c.want) {
				t.Errorf("doctor does not say %q:\n%s", c.want, out)
			}
			if strings.Contains(c.want, "next start of an engine") || strings.Contains(c.want, "stored text") {
				pawlFails(t, dir, exitFailed, "doctor", "--repair") // it is not in rows
				return
			}
			out, err := command(t, dir, "doctor", "--repair", "--database", "sqlite:old.db").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "and the rows of 1 run: ") ||
				!strings.Contains(string(out), "Nothing is wrong") {
				t.Errorf("doctor --repair: %v\n%s", err, out)
			}
			copies, err := filepath.Glob(filepath.Join(dir, "old.db.before-repair-*Z"))
			if err != nil || len(copies) != 1 {
				t.Errorf("copies %v, %v", copies, err)
			}
		})
	}
}

// TestDoctorFindsWrongRowsOfEndedRuns checks that the rows of a run that ended at once are stored together.
func TestDoctorFindsWrongRowsOfEndedRuns(t *testing.T) {
	t.Parallel()
	for damage, want := range map[string]string{
		"UPDATE ended_data SET rows = replace(rows, 'first', 'fjrst')": `Name is fjrst in its row`,
		"UPDATE ended_data SET rows = substr(rows, 9)":                 `step "first": Name is  in its row`,
		"DELETE FROM ended_data":                                       `attempt 1 of step 0: Attempt is 0 in its row`,
	} {
		t.Run(damage, func(t *testing.T) {
			dir := t.TempDir()
			text := "pawl: 1\nname: short\nsteps:\n  - {name: first, noop: {}}\n  - {name: second, noop: {}}\n"
			if err := os.WriteFile(filepath.Join(dir, "short.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			database := []string{"--database", "sqlite:old.db"}
			for _, args := range [][]string{{"run", "short.yaml"}, {"doctor"}} {
				if out, err := command(t, dir, append(args, database...)...).CombinedOutput(); err != nil {
					t.Fatalf("pawl %v: %v\n%s", args, err, out)
				}
			}
			change(t, filepath.Join(dir, "old.db"), damage)
			if out := pawlFails(t, dir, exitFailed, "doctor"); !strings.Contains(out, want) {
				t.Errorf("doctor does not say %q:\n%s", want, out)
			}
			out, err := command(t, dir, append([]string{"doctor", "--repair"}, database...)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Nothing is wrong") {
				t.Errorf("doctor --repair: %v\n%s", err, out)
			}
		})
	}
}

func change(t *testing.T, path, statement string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := sqlitex.ExecuteTransient(c, statement, nil); err != nil {
		t.Fatal(err)
	}
	if c.Changes() == 0 {
		t.Fatalf("%s changes nothing", statement)
	}
}

// TestDamagedFlowDoesNotRun checks that a flow whose stored text has changed does not run: its commands may be others.
func TestDamagedFlowDoesNotRun(t *testing.T) {
	t.Parallel()
	dir, path := oldDatabase(t)
	change(t, path, "UPDATE definitions SET source = replace(source, 'item * 2', 'item * 3')")
	for _, args := range [][]string{{"resume"}, {"run", "show", "of-old"}, {"step", "now", "of-old", "again"}} {
		if out := pawlFails(t, dir, exitFailed, args...); !strings.Contains(out,
			`the stored text of flow "old" is not the one it was started with`) {
			t.Errorf("pawl %v: %s", args, out)
		}
	}
}

// TestDamagedTables checks a file in which a changed byte of a table's definition makes a column another one.
func TestDamagedTables(t *testing.T) {
	t.Parallel()
	dir, path := oldDatabase(t)
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := sqlitex.ExecuteTransient(c, "ALTER TABLE journal RENAME COLUMN entries TO entrief", nil); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"resume"}, {"run", "list"}, {"doctor"}} {
		if out := pawlFails(t, dir, exitFailed, args...); !strings.Contains(out, "the storage is corrupt") {
			t.Errorf("pawl %v: %s", args, out)
		}
	}
}

// TestLostHistory checks a run whose history is lost. There still is a row, but nothing to go on from: steps that the
// run has done must not be done again.
func TestLostHistory(t *testing.T) {
	t.Parallel()
	dir, path := oldDatabase(t)
	change(t, path, "DELETE FROM history")
	for _, args := range [][]string{{"run", "show", "of-old"}, {"resume"}, {"run", "cancel", "of-old"}} {
		if out := pawlFails(t, dir, exitFailed, args...); !strings.Contains(out, "has a row and no history") {
			t.Errorf("pawl %v: %s", args, out)
		}
	}
	if out := pawlFails(t, dir, exitFailed, "doctor"); !strings.Contains(out, "runs without history: 1") {
		t.Errorf("doctor: %s", out)
	}
}

// TestDamagedFile cuts the file and changes its bytes so that it cannot be opened; every command says what is wrong
// with which file, and none changes it further.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	_, whole := oldDatabase(t)
	sound, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	const page = 8192
	noise := bytes.Repeat([]byte{0xa5}, 64)
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"text", func([]byte) []byte { return []byte("a shopping list\n") }},
		{"first bytes", func(b []byte) []byte { copy(b, noise); return b }},
		{"schema", func(b []byte) []byte { copy(b[100:], noise); return b }},
		{"cut in the header", func(b []byte) []byte { return b[:50] }},
		{"cut in the first page", func(b []byte) []byte { return b[:1000] }},
		{"cut at a page", func(b []byte) []byte { return b[:2*page] }},
		{"cut in the middle", func(b []byte) []byte { return b[:len(b)/2] }},
		{"every page", func(b []byte) []byte {
			for at := page; at < len(b); at += page {
				copy(b[at:], noise)
			}
			return b
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "old.db")
			damaged := c.damage(bytes.Clone(sound))
			write(t, dir, "old.db", string(damaged))
			for _, args := range [][]string{
				{"doctor"},
				{"run", "list"},
				{"run", "show", "of-old"},
				{"resume"},
				{"run", "cancel", "of-old"},
			} {
				out := pawlFails(t, dir, exitFailed, args...)
				if !strings.Contains(out, "old.db") || !strings.Contains(out, "corrupt") &&
					!strings.Contains(out, "not a Pawl database") {
					t.Errorf("pawl %v: %s", args, out)
				}
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, damaged) {
				t.Errorf("the damaged file was changed: %v", err)
			}
		})
	}
}
