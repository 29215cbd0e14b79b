//go:build unix

package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// TestExecResultPipe checks that a process that puts a named pipe in the place of $PAWL_OUTPUT does not hold up its
// attempt.
func TestExecResultPipe(t *testing.T) {
	res := begin(t, ExecConfig{}, shellTask(t, `mkfifo "$PAWL_OUTPUT"`, nil)).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "invalid_output")
}

// TestExecResultFolder checks that the folder for temporary files may be relative. A process elsewhere still finds its
// file.
func TestExecResultFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	task := shellTask(t, `echo a=1 >> "$PAWL_OUTPUT"`, map[string]any{"dir": t.TempDir()})
	res := begin(t, ExecConfig{}, task).wait(t)
	if res.Failure != nil || workertest.Field(t, res.Output, "a") != `"1"` {
		t.Errorf("%s, %v", res.Output, res.Failure)
	}
}

// TestExecResultFile checks that the file $PAWL_OUTPUT is made by the process that writes to it, and is gone after the
// attempt. Its folder is one for all attempts, made again if something removes it, and gone after Close.
func TestExecResultFile(t *testing.T) {
	for name, cfg := range map[string]ExecConfig{"without logs": {}, "with logs": {LogDir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			e := newTestExec(t, cfg)
			execute := func(line, field string) string {
				t.Helper()
				res := e.Execute(t.Context(), new(shellTask(t, line, nil)), workertest.NewSigns())
				if res.Failure != nil {
					t.Fatal(res.Failure)
				}
				return workertest.Field(t, res.Output, field)
			}
			path := execute(`printf '"%s"' "$PAWL_OUTPUT"; test ! -e "$PAWL_OUTPUT"`, "value")
			path = path[1 : len(path)-1]
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("%s: %v", path, err)
			}
			if got := execute(`echo a=1 >> "$PAWL_OUTPUT"`, "a"); got != `"1"` {
				t.Errorf("the result is %s", got)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("after the attempt, %s: %v", path, err)
			}
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			e.results.seen = time.Time{} // a moment passes
			if got := execute(`echo a=2 >> "$PAWL_OUTPUT"`, "a"); got != `"2"` {
				t.Errorf("after its folder was removed, the result is %s", got)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("Close leaves %v, %v", left, err)
			}
		})
	}
}
