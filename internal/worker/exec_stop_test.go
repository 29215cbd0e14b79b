//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

func shellTask(t *testing.T, line string, more map[string]any) core.Task {
	t.Helper()
	payload := map[string]any{"shell": line, "results": "lines"}
	for name, value := range more {
		payload[name] = value
	}
	return workertest.Task("exec", workertest.JSON(t, payload))
}

// running is an attempt that executes while the test goes on.
type runningExec struct {
	cancel context.CancelCauseFunc
	signs  *workertest.Signs
	result chan Result
}

func newTestExec(t *testing.T, cfg ExecConfig) *Exec {
	t.Helper()
	e := NewExec(cfg)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func begin(t *testing.T, cfg ExecConfig, task core.Task) *runningExec {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &runningExec{cancel: cancel, signs: workertest.NewSigns(), result: make(chan Result, 1)}
	e := newTestExec(t, cfg)
	go func() { r.result <- e.Execute(ctx, &task, r.signs) }()
	return r
}

func (r *runningExec) stop() { r.cancel(&RevokedError{Kind: policy.KindTimeout}) }

func (r *runningExec) wait(t *testing.T) Result {
	t.Helper()
	select {
	case res := <-r.result:
		return res
	case <-time.After(workertest.Patience):
		t.Fatal("the attempt does not end")
		return Result{}
	}
}

// TestExecAsksOnce checks that a process gets one SIGTERM alone, with its marks and in its group or outside. It takes
// several processes: a second signal to one that has not yet handled the first is none.
func TestExecAsksOnce(t *testing.T) {
	const counts = `exec 9>$FIFO 8<>$NEVER; trap 'echo asked >&9' TERM; echo ready >&9; while :; do read x <&8; done`
	for name, line := range map[string]string{
		"in the group":  `for i in $MANY; do sh -c "$LINE" & done; wait`,
		"which left it": `for i in $MANY; do setsid -w sh -c "$LINE" & done; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("setsid"); err != nil && name != "in the group" {
				t.Skip(err)
			}
			f := newFIFO(t)
			many := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
			env := map[string]string{"FIFO": f.path, "NEVER": newFIFO(t).path, "LINE": counts}
			env["MANY"] = strings.Join(many, " ")
			task := shellTask(t, line, map[string]any{"grace": 500, "env": env})
			task.StepName = name
			r := begin(t, ExecConfig{}, task)
			for range many {
				f.line()
			}
			r.stop()
			for range many {
				if line := f.line(); line != "asked" {
					t.Error(line)
				}
			}
			r.wait(t)
			_ = f.file.SetReadDeadline(time.Now().Add(workertest.Patience))
			if rest, err := io.ReadAll(f.in); err != nil || len(rest) > 0 {
				t.Errorf("it was asked again: %q, %v", rest, err)
			}
		})
	}
}

func TestExecStops(t *testing.T) {
	for name, line := range map[string]string{
		"a process":                      `exec 9>$FIFO; echo ready >&9; exec sleep 1000`,
		"one that ignores SIGTERM":       `trap '' TERM; exec 9>$FIFO; echo ready >&9; sleep 1000; sleep 1000`,
		"its grandchildren":              `exec 9>$FIFO; (sleep 1000; true) & sleep 1000 & echo ready >&9; wait`,
		"grandchildren ignoring SIGTERM": `exec 9>$FIFO; (trap '' TERM; echo ready >&9; sleep 1000; sleep 1000) & wait`,
		"a suspended one":                `exec 9>$FIFO; trap 'exit 0' TERM; echo ready >&9; kill -STOP $$; sleep 1000`,
		"one whose output nobody reads":  `exec 9>$FIFO; echo ready >&9; exec yes`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFIFO(t)
			task := shellTask(t, line, map[string]any{"grace": 100, "env": map[string]string{"FIFO": f.path}})
			task.StepName = name // the processes of an attempt are found by it
			r := begin(t, ExecConfig{}, task)
			f.line()
			r.stop()
			res := r.wait(t)
			workertest.WantFailure(t, res.Failure, policy.KindCancelled, "stopped")
			if res.Abandoned {
				t.Error("it was abandoned")
			}
			f.dead()
		})
	}
}

// TestExecStopsGently checks that the output that a process writes after SIGTERM is kept, and its children get the
// grace too.
func TestExecStopsGently(t *testing.T) {
	f, dir := newFIFO(t), t.TempDir()
	task := shellTask(t, `exec 9>$FIFO
		(trap 'echo child is done; exit 0' TERM; echo ready >&9; while :; do sleep 0.01; done) &
		wait`, map[string]any{"env": map[string]string{"FIFO": f.path}, "grace": 20000})
	r := begin(t, ExecConfig{LogDir: dir}, task)
	f.line()
	r.stop()
	if res := r.wait(t); res.Abandoned {
		t.Error("it was abandoned")
	}
	f.dead()
	if log := readFile(t, LogPath(dir, task.Token, task.StepName)); !strings.Contains(log, "child is done\n") {
		t.Errorf("the log has %q", log)
	}
}

func TestExecBeforeItsStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := t.TempDir() + "/made"
	res := newTestExec(t, ExecConfig{}).Execute(ctx, new(shellTask(t, "touch "+path, nil)), workertest.NewSigns())
	workertest.WantFailure(t, res.Failure, policy.KindCancelled, "stopped")
	if _, err := os.Stat(path); err == nil {
		t.Error("it was executed")
	}
}

// TestExecKillsWhatIsLeft checks that when an attempt has ended, the rest of its process group is killed without
// waiting for it.
func TestExecKillsWhatIsLeft(t *testing.T) {
	f := newFIFO(t)
	r := begin(t, ExecConfig{}, shellTask(t, `exec 9>$FIFO; echo ready >&9; sleep 1000 & echo started; exit 3`,
		map[string]any{"env": map[string]string{"FIFO": f.path}}))
	f.line()
	res := r.wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindError, "exit")
	f.dead()
	if got := workertest.Field(t, res.Output, "stdout"); got != `"started\n"` {
		t.Errorf("stdout is %s", got)
	}
}

// TestExecWaitsForTheLastLine checks that a child may still write its last line after the leading process has ended.
func TestExecWaitsForTheLastLine(t *testing.T) {
	res := begin(t, ExecConfig{}, shellTask(t, `(while kill -0 $$; do :; done 2>&-; echo last) & exit 0`, nil)).wait(t)
	if got := workertest.Field(t, res.Output, "stdout"); got != `"last\n"` || res.Failure != nil {
		t.Errorf("stdout is %s, failure %v", got, res.Failure)
	}
}

// stuck is an Alive that blocks until the test releases it.
type stuck struct{ came, gone chan struct{} }

func (s stuck) Output() {
	s.came <- struct{}{}
	<-s.gone
}

func (stuck) Heartbeat([]byte) {}

// TestSharedFile checks that a file that could not be opened, because too many others were open, is opened when it is
// needed next.
func TestSharedFile(t *testing.T) {
	s := sharedFile{path: filepath.Join(t.TempDir(), "later")}
	if _, err := s.open(); err == nil {
		t.Fatal("a file that is not there was opened")
	}
	if err := os.WriteFile(s.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if again, err := s.open(); again != f || err != nil {
		t.Errorf("it was opened twice: %v", err)
	}
}

// TestExecTakesWhatWasWritten checks that everything that a process wrote before its streams are ended is read, even if
// the reader is slow and another process holds the streams open.
func TestExecTakesWhatWasWritten(t *testing.T) {
	for name, open := range map[string]bool{"ended": false, "held open": true} {
		t.Run(name, func(t *testing.T) {
			behind := stuck{make(chan struct{}, 10), make(chan struct{})}
			c, cmd := newCapture(nil, behind, nil), &exec.Cmd{}
			c.lines = true
			s, err := c.connect(cmd, "")
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			text := strings.Repeat("x\n", chunkSize/2) + strings.Repeat("y\n", 1000) + `{"answer": 42}` + "\n"
			if _, err := io.WriteString(cmd.Stdout, text); err != nil {
				t.Fatal(err)
			}
			if open {
				defer s.child[0].Close()
				s.child[0] = nil
			}
			s.started(true)
			<-behind.came
			if err := s.stdout.SetReadDeadline(time.Now()); err != nil {
				t.Fatal(err)
			}
			close(behind.gone)
			s.end()
			if string(c.stdout.json) != `{"answer": 42}` || int(c.stdout.total) != len(text) {
				t.Errorf("%d of %d bytes, the result is %q", c.stdout.total, len(text), c.stdout.json)
			}
		})
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestExecThroughThePool checks the reports that an engine gets when a process is stopped.
func TestExecThroughThePool(t *testing.T) {
	r := newReports()
	p := NewPool(PoolConfig{Reporter: r})
	f := newFIFO(t)
	task := shellTask(t, `exec 9>$FIFO; trap '' TERM; echo ready >&9; sleep 1000`,
		map[string]any{"grace": 50, "env": map[string]string{"FIFO": f.path}})
	p.Dispatch(task)
	f.line()
	p.Revoke(task.Token, policy.KindTimeout)
	if end := next[core.TaskStopped](t, r); end.Abandoned {
		t.Error("it was abandoned")
	}
	f.dead()

	task = shellTask(t, `echo '{"n": 1}'`, nil)
	task.Deadline = policy.At(time.Now().Add(time.Hour))
	p.Dispatch(task)
	if end := next[core.TaskEnded](t, r); end.Failure != nil || workertest.Field(t, end.Output, "n") != "1" {
		t.Errorf("%s, %v", end.Output, end.Failure)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestExecPassesHeaders checks that a process gets the headers of its run, and the trace among them as other tools
// expect it.
func TestExecPassesHeaders(t *testing.T) {
	const run, own, worker = "00-11111111111111111111111111111111-1111111111111111-01", "00-22", "00-33"
	t.Setenv("TRACEPARENT", worker)
	t.Setenv("PAWL_HEADERS", "the outer worker's")
	script := `echo "$TRACEPARENT $TRACESTATE $PAWL_HEADERS"`
	for _, test := range []struct {
		env     map[string]string
		headers core.Headers
		want    string
	}{
		{nil, "", worker + "  "},
		{nil, "tenant=acme", worker + `  {"tenant":"acme"}`},
		{
			nil, "traceparent=" + run + "\ntracestate=a=1",
			run + ` a=1 {"traceparent":"` + run + `","tracestate":"a=1"}`,
		},
		{map[string]string{"TRACEPARENT": own}, "traceparent=" + run, own + `  {"traceparent":"` + run + `"}`},
	} {
		task := shellTask(t, script, map[string]any{"env": test.env})
		task.Headers = test.headers
		res := begin(t, ExecConfig{}, task).wait(t)
		var got string
		if err := json.Unmarshal([]byte(workertest.Field(t, res.Output, "stdout")), &got); err != nil {
			t.Fatal(err)
		}
		if got != test.want+"\n" {
			t.Errorf("headers %q: %q, want %q", test.headers, got, test.want)
		}
	}
}

func TestExecTellsTheProcess(t *testing.T) {
	t.Setenv("PAWL_LAST_HEARTBEAT", "the outer worker's")
	t.Setenv("PAWL_DATABASE", "postgres://pawl:hunter22@db/pawl")
	t.Setenv("SHOP_REGION", "is passed on")
	task := shellTask(t, `env | grep -E '^(PAWL|MINE|HOME|SHOP)'`,
		map[string]any{"env": map[string]string{"MINE": "1", "HOME": "/h", "PAWL_STEP": "no"}})
	res := begin(t, ExecConfig{Owner: "me"}, task).wait(t)
	got := workertest.Field(t, res.Output, "stdout")
	for _, want := range []string{
		"PAWL_RUN_ID=" + workertest.Run.String(), "PAWL_STEP=build", "PAWL_ATTEMPT=2", "PAWL_OWNER=me", "MINE=1",
		"HOME=/h",
		"PAWL_IDEMPOTENCY_KEY=" + workertest.Run.String() + "-4", "PAWL_OUTPUT=/", "SHOP_REGION=is passed on",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	for _, not := range []string{"PAWL_LAST_HEARTBEAT", "PAWL_DEADLINE_MS", "PAWL_DATABASE"} {
		if strings.Contains(got, not) {
			t.Errorf("%s is in %s", not, got)
		}
	}

	task = shellTask(t, `echo $PAWL_LAST_HEARTBEAT; echo ${PAWL_DEADLINE_MS}; echo [$HOME]`,
		map[string]any{"env": map[string]string{"HOME": ""}})
	task.Details = []byte(`{"page":7}`)
	ctx := &attemptContext{t.Context(), time.Now().Add(time.Hour)}
	res = newTestExec(t, ExecConfig{}).Execute(ctx, &task, workertest.NewSigns())
	if got := workertest.Field(t, res.Output, "stdout"); !strings.HasPrefix(got, `"{\"page\":7}\n3599`) ||
		!strings.HasSuffix(got, `\n[]\n"`) {
		t.Errorf("stdout is %s", got)
	}
}
