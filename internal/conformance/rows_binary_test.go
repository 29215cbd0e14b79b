package conformance

import (
	"bufio"
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/pawlflow"
)

func init() {
	rows["B12"] = serverSkipsTime
	rows["B14"] = oneBinary
}

// passedOn waits for an event between its two steps. Each leaves a line, so that one that runs twice is seen.
const passedOn = `pawl: 1
name: passed
steps:
  - {name: first, exec: 'echo first >> done.txt'}
  - {name: go, needs: [first], wait: {event: go}, timeout: 1h}
  - {name: last, needs: [go], exec: 'echo last >> done.txt'}
`

// oneBinary checks that the command is one static program without C. The same flow runs by it, in a Go program and on a
// server, and each carries on what another began.
func oneBinary(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the flow needs a POSIX shell")
	}
	binary := built(t)
	isStatic(t, binary)
	isPermissive(t)
	ways := []string{"command", "program", "server"}
	for _, begins := range ways {
		for _, ends := range ways {
			if begins != ends {
				t.Run(begins+" to "+ends, func(t *testing.T) { passOn(t, binary, begins, ends) })
			}
		}
	}
}

// built returns the path of the command.
func built(t *testing.T) string {
	t.Helper()
	return filepath.Join(pawlbin.Build(t, "./cmd/pawl"), "pawl")
}

// skipped waits for days, is tried again for hours, and comes to its limit.
const skipped = `pawl: 1
name: skipped
timeout: 5d
steps:
  - {name: rest, sleep: 3d}
  - {name: work, needs: [rest], exec: 'exit 1', retry: "exponential(9, 1h, max=10h)", timeout: 20h}
  - {name: gate, wait: {event: never}, timeout: 4d}
`

// serverSkipsTime checks that a server whose clock is moved comes to the same instants as one that waits, with real
// processes.
func serverSkipsTime(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the flow needs a POSIX shell")
	}
	c := carrier{t, built(t), t.TempDir()}
	c.write("flow.yaml", skipped)
	began := time.Now()
	var r api.Run
	c.server(func() {
		c.pawl("run", "--detach", "flow.yaml", "--id", "skip")
		c.pawl("time", "move", "--end")
		if err := json.Unmarshal([]byte(c.pawl("run", "show", "skip", "-o", "json")), &r); err != nil {
			t.Fatal(err)
		}
	}, "--virtual-time")
	const day = 24 * time.Hour
	var got []string
	for _, s := range r.Steps {
		for _, a := range s.Attempts {
			got = append(got, fmt.Sprintf("%s at %s", s.Step, a.StartedAt.Sub(r.CreatedAt).Round(time.Minute)))
		}
		got = append(got, fmt.Sprintf("%s %s at %s", s.Step, s.Phase, s.EndedAt.Sub(r.CreatedAt).Round(time.Minute)))
	}
	want := []string{"rest succeeded at 72h0m0s"}
	for _, after := range []time.Duration{0, time.Hour, 3 * time.Hour, 7 * time.Hour, 15 * time.Hour} {
		want = append(want, "work at "+(3*day+after).String())
	}
	want = append(want, "work timed_out at "+(3*day+15*time.Hour).String())
	slices.Sort(got)
	slices.Sort(want)
	got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "gate") })
	if !slices.Equal(got, want) || r.Phase != api.RunFailed {
		t.Errorf("it is %s\n  %s\nwant\n  %s", r.Phase, joined(got), joined(want))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the server has waited for %s", took)
	}
}

func isStatic(t *testing.T, binary string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" && s.Value != "0" {
			t.Errorf("it is built with cgo")
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it needs a dynamic linker: %s", p.Type)
		}
	}
}

func isPermissive(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(treeRoot, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("Apache License")) && !bytes.Contains(text, []byte("MIT License")) {
		t.Errorf("the licence is another one: %.80s", text)
	}
}

// carrier is one way to work with a database.
type carrier struct {
	*testing.T
	binary, dir string
}

// passOn begins a run in one way until it waits, and ends it in another.
func passOn(t *testing.T, binary, begins, ends string) {
	c := carrier{t, binary, t.TempDir()}
	t.Chdir(c.dir) // where the steps of the Go program run
	c.write("flow.yaml", passedOn)
	switch begins {
	case "command":
		c.pawl("run", "--detach", "flow.yaml", "--id", "pass")
	case "program":
		c.program(func(ctx context.Context, e *pawl.Engine, w *pawl.Workflow[any, any]) {
			if _, err := w.Start(ctx, e, "pass", nil); err != nil {
				t.Fatal(err)
			}
			c.firstDone(ctx, e)
		})
	case "server":
		c.server(func() { c.pawl("run", "--detach", "flow.yaml", "--id", "pass"); c.firstOnServer() })
	}
	switch ends {
	case "command":
		c.pawl("event", "send", "pass", "go")
		c.pawl("resume", "pass")
	case "program":
		c.program(func(ctx context.Context, e *pawl.Engine, w *pawl.Workflow[any, any]) {
			if err := pawl.Event[nothing]("go").Send(ctx, e, "pass", nothing{}); err != nil {
				t.Fatal(err)
			}
			r, err := w.Find(ctx, e, "pass")
			if err == nil {
				_, err = r.Result(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	case "server":
		c.server(func() { c.pawl("event", "send", "pass", "go"); c.pawl("run", "watch", "pass") })
	}
	if out := c.pawl("run", "show", "pass"); !strings.Contains(out, "succeeded") {
		t.Errorf("it is shown as\n%s", out)
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "done.txt"))
	if err != nil || string(text) != "first\nlast\n" {
		t.Errorf("its steps have left %q, %v", text, err)
	}
}

func (c carrier) write(name, text string) {
	c.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c carrier) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.Context(), c.binary, append(args, "--database", "sqlite:pass.db")...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(c.dir, "state"), "USER=tester")
	return cmd
}

// pawl runs the command and returns what it printed.
func (c carrier) pawl(args ...string) string {
	c.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		c.Fatalf("pawl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// program runs a Go program that works on the database.
func (c carrier) program(do func(ctx context.Context, e *pawl.Engine, w *pawl.Workflow[any, any])) {
	c.Helper()
	doc, err := flow.Parse(filepath.Join(c.dir, "flow.yaml"), []byte(passedOn))
	if err != nil {
		c.Fatal(err)
	}
	w := pawlflow.Define[any, any](doc)
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	e, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(c.dir, "pass.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		c.Fatal(err)
	}
	do(ctx, e, w)
	if err := e.Close(); err != nil {
		c.Fatal(err)
	}
}

// firstDone waits until the run waits for its event.
func (c carrier) firstDone(ctx context.Context, e *pawl.Engine) {
	c.Helper()
	after := 0
	for {
		events, err := e.HistoryEvents(ctx, "pass", after)
		if err != nil {
			c.Fatal(err)
		}
		for _, ev := range events {
			if after++; ev.Type == "step.suspended" {
				return
			}
		}
	}
}

// firstOnServer does so through the command: it watches until the event of the wait is printed.
func (c carrier) firstOnServer() {
	c.Helper()
	cmd := c.command("run", "watch", "pass", "--json")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	seen := false
	for !seen && lines.Scan() {
		seen = strings.Contains(lines.Text(), `"step.suspended"`)
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if !seen {
		c.Fatal("the run does not come to its wait")
	}
}

// server does something while a server has the database. The command finds it by the database.
func (c carrier) server(do func(), flags ...string) {
	c.Helper()
	cmd := c.command(append([]string{"dev", "--listen", "127.0.0.1:0"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	ended := make(chan struct{})
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	go func() { _, _ = io.Copy(&said, lines); close(ended) }()
	if err != nil || !strings.HasPrefix(first, "serving ") {
		_ = cmd.Process.Kill()
		<-ended
		c.Fatalf("pawl dev: %v %s%s", err, first, said.String())
	}
	do()
	_ = cmd.Process.Signal(os.Interrupt)
	<-ended
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
		c.Errorf("pawl dev: %v\n%s", err, said.String())
	}
}
