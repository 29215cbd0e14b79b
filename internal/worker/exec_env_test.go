//go:build unix

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
)

// TestEnvironment checks that no variable is given twice, the step's value replaces the run's and the worker's, nothing
// replaces what describes the attempt, and a secret's variable is not passed on. Later changes of the worker's
// environment are seen.
func TestEnvironment(t *testing.T) {
	t.Setenv("TRACEPARENT", "the worker's")
	t.Setenv("WORKER_TEST_KEPT", "kept")
	t.Setenv("WORKER_TEST_REPLACED", "the worker's")
	t.Setenv("WORKER_TEST_SECRET", "secret")
	name, source, err := secret.ParseSource("key=env:WORKER_TEST_SECRET")
	if err != nil {
		t.Fatal(err)
	}
	e := newTestExec(t, ExecConfig{Secrets: secret.NewStore(map[string]secret.Source{name: source})})
	task := workertest.Task("exec", `{}`)
	p := &ExecPayload{Env: map[string]string{
		"TRACEPARENT": "the step's", "WORKER_TEST_REPLACED": "the step's", "PAWL_STEP": "another", "PAWL_OUTPUT=a": "b",
	}}
	check := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, entry := range e.environment(t.Context(), task, p, &resultFile{path: "/results"}) {
			name, value, _ := strings.Cut(entry, "=")
			if old, twice := got[name]; twice {
				t.Errorf("%s is given twice: %q and %q", name, old, value)
			}
			got[name] = value
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s is %q, want %q", name, got[name], value)
			}
		}
	}
	want := map[string]string{
		"TRACEPARENT": "the step's", "WORKER_TEST_KEPT": "kept", "WORKER_TEST_REPLACED": "the step's",
		"WORKER_TEST_SECRET": "", "PAWL_STEP": task.StepName, "PAWL_OUTPUT": "/results",
	}
	check(want)
	t.Setenv("WORKER_TEST_KEPT", "changed")
	want["WORKER_TEST_KEPT"] = "changed"
	check(want)
	p.Env = nil
	want["TRACEPARENT"], want["WORKER_TEST_REPLACED"] = "the worker's", "the worker's"
	check(want)
}

// TestEncodeOwn checks that the output without results of the process has the form of any other one.
func TestEncodeOwn(t *testing.T) {
	for _, log := range []*attemptLog{nil, {path: `/logs/"a".log`}} {
		c := newCapture(log, nil, nil)
		c.stdout.tail.write([]byte("<a>\n"))
		c.stderr.tail.write([]byte("b\xff\n"))
		got := c.encode(3, nil)
		values := map[string]any{
			"exitCode": 3, "stderr": "b\uFFFD\n", "stderrBytes": 3, "stdout": "<a>\n", "stdoutBytes": 4,
		}
		if log != nil {
			values["log"] = log.path
		}
		if want := EncodeJSON(values); string(got) != string(want) {
			t.Errorf("%s\nwant %s", got, want)
		}
		c.stdout.json = []byte(`{"stdout":"<a>\n"}`)
		if merged := c.encode(3, nil); string(merged) != string(got) {
			t.Errorf("with a result: %s\nwithout: %s", merged, got)
		}
	}
}

// TestExecLargeHeartbeat checks that a process finds details that no variable can hold in a file, which goes with the
// attempt.
func TestExecLargeHeartbeat(t *testing.T) {
	for name, logs := range map[string]string{"with logs": t.TempDir(), "without logs": ""} {
		t.Run(name, func(t *testing.T) {
			task := shellTask(t, `wc -c <"$PAWL_LAST_HEARTBEAT_FILE"; echo "$PAWL_LAST_HEARTBEAT_FILE"`, nil)
			task.Details = []byte(`"` + strings.Repeat("x", 300<<10) + `"`)
			res := newTestExec(t, ExecConfig{LogDir: logs}).Execute(t.Context(), &task, workertest.NewSigns())
			if res.Failure != nil {
				t.Fatal(res.Failure)
			}
			var out struct{ Stdout string }
			if err := json.Unmarshal(res.Output, &out); err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(out.Stdout)
			if len(words) != 2 || words[0] != fmt.Sprint(len(task.Details)) {
				t.Fatalf("stdout is %q", out.Stdout)
			}
			if _, err := os.Stat(words[1]); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file is left: %v", err)
			}
		})
	}
}
