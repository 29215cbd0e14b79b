//go:build unix

package worker

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// TestExecScript checks that a script ends with its first command that fails, and an interpreter may be chosen.
func TestExecScript(t *testing.T) {
	bash := []string{"bash", "-euo", "pipefail", "-c"}
	for name, c := range map[string]struct {
		script      string
		interpreter []string
		fails       bool
	}{
		"a line fails":          {"false\necho on", nil, true},
		"one that may":          {"false || true\necho on", nil, false},
		"no -e on purpose":      {"false\necho on", []string{"/bin/sh", "-c"}, false},
		"a pipe":                {"false | cat", nil, HasPipefail()},
		"a pipe of bash":        {"false | cat", bash, true},
		"an unset variable":     {`echo "$nothing"`, bash, true},
		"another program's own": {"a b", []string{"test", "-n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			more := map[string]any{}
			if c.interpreter != nil {
				if _, err := exec.LookPath(c.interpreter[0]); err != nil {
					t.Skip(err)
				}
				more["interpreter"] = c.interpreter
			}
			res := begin(t, ExecConfig{}, shellTask(t, c.script, more)).wait(t)
			if failed := res.Failure != nil; failed != c.fails {
				t.Errorf("%v, %s", res.Failure, res.Output)
			}
		})
	}
}

// TestExecPrintsText checks that what a process prints is nothing but text, whoever wrote it. Results and failures
// stand in the file.
func TestExecPrintsText(t *testing.T) {
	const printed = `echo '{"pawl":{"failed":true}}'; echo '{"pawl":{"heartbeat":1}}'; echo '{"level":"info"}'` + "\n"
	file := func(line string) string { return printed + "echo '" + line + `' >> "$PAWL_OUTPUT"` }
	for name, c := range map[string]struct{ script, level, id, failure string }{
		"nothing in the file": {printed, "", "", ""},
		"an object":           {file(`{"id": 42, "level": [1]}`), "[1]", "42", ""},
		"a failure":           {file(`{"pawl": {"failed": true, "type": "Declined"}}`), "", "", "Declined"},
		"a beat":              {file(`{"pawl": {"heartbeat": 1}}`), "", "", "invalid_output"},
		"no object":           {file(`{"id": 4`), "", "", "invalid_output"},
	} {
		t.Run(name, func(t *testing.T) {
			run := begin(t, ExecConfig{}, shellTask(t, c.script, map[string]any{"results": "file"}))
			res := run.wait(t)
			failure := ""
			if res.Failure != nil {
				failure = res.Failure.Type
			}
			if failure != c.failure || workertest.Field(t, res.Output, "level") != c.level ||
				workertest.Field(t, res.Output, "id") != c.id || len(run.signs.Beats) > 0 {
				t.Errorf("%s, %v, %d heartbeats", res.Output, res.Failure, len(run.signs.Beats))
			}
		})
	}
	res := begin(t, ExecConfig{}, shellTask(t, "true", map[string]any{"results": "mail"})).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "invalid_payload")
	if !strings.Contains(res.Failure.Message, `results is file or lines, not "mail"`) {
		t.Error(res.Failure)
	}
}

// TestExecSecretInFile checks that a secret with an equals sign that is written without a name would be cut into one.
func TestExecSecretInFile(t *testing.T) {
	store := secret.StoreOf(func(context.Context, string) (string, error) { return "hunter2=hunter3", nil })
	if _, err := store.Value(t.Context(), "token"); err != nil {
		t.Fatal(err)
	}
	task := shellTask(t, `echo hunter2=hunter3 >> "$PAWL_OUTPUT"`, nil)
	res := begin(t, ExecConfig{Secrets: store}, task).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "invalid_output")
	if text := string(res.Output) + res.Failure.Message; strings.Contains(text, "hunter") {
		t.Error(text)
	}
}

// TestBackgroundIsTold checks that the log says so when something was killed which a script had left running.
func TestBackgroundIsTold(t *testing.T) {
	dir := t.TempDir()
	e := newTestExec(t, ExecConfig{LogDir: dir})
	for script, want := range map[string]bool{"sleep 60 & echo hi": true, "echo hi": false} {
		task := shellTask(t, script, nil)
		if res := e.Execute(t.Context(), &task, workertest.NewSigns()); res.Failure != nil {
			t.Fatal(res.Failure)
		}
		text, err := os.ReadFile(LogPath(dir, task.Token, task.StepName))
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(string(text), restKilled); told != want {
			t.Errorf("%s: %s", script, text)
		}
		if err := os.Remove(LogPath(dir, task.Token, task.StepName)); err != nil {
			t.Fatal(err)
		}
	}
}
