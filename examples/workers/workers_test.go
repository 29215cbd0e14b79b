// Package workers_test runs the workers of this folder against the real command.
package workers_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

// required says that a language that is not installed is an error: .ci/run sets it where it has found all of them.
const required = "PAWL_REQUIRE_LANGUAGES"

// server is a running pawl server.
type server struct {
	*testing.T
	url   string
	token string       // the token of a worker of the queue
	own   *http.Client // a client of the socket beside the database, which asks for no token
}

// rate is how many requests of a token the server takes in a second. A worker that reports each page makes more.
const rate = 2

// start starts the command on this folder's flows.
func start(t *testing.T) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin, file := filepath.Join(pawlbin.Build(t, "./cmd/pawl"), "pawl"), filepath.Join(dir, "t.db")
	create := exec.CommandContext(t.Context(), bin, "token", "create", "w", "--role", "worker", "--queue", "reports",
		"--database", "sqlite:"+file)
	token, err := create.Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "server", ".", "--listen", "127.0.0.1:0",
		"--database", "sqlite:"+file, "--rate", strconv.Itoa(rate))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the signal is its end
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", file+".sock")
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var said struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "serving" {
			go func() {
				for lines.Scan() { // nobody reads the rest
				}
			}()
			through := &http.Transport{DialContext: dial}
			t.Cleanup(through.CloseIdleConnections)
			return &server{t, said.Address, strings.TrimSpace(string(token)), &http.Client{Transport: through}}
		}
	}
	t.Fatal("the server did not say where it serves")
	return nil
}

// ask sends a request and reads its answer.
func (s *server) ask(method, path string, body any, out any) {
	s.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.Context(), method, "http://localhost/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.own.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		s.Fatalf("%s %s: %s %s", method, path, res.Status, b.String())
	}
	if out != nil {
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			s.Fatal(err)
		}
	}
}

// begin starts a run with so many pages.
func (s *server) begin(pages int) string {
	s.Helper()
	var started struct{ Run string }
	s.ask("POST", "/runs", map[string]any{"workflow": "report", "input": map[string]int{"pages": pages}}, &started)
	return started.Run
}

type shown struct {
	Phase  string
	Output json.RawMessage
	Steps  []struct {
		Phase    string
		Attempts []struct {
			Worker, Outcome string
			Abandoned       bool
		}
	}
}

func (s *server) run(id string) (r shown) {
	s.Helper()
	s.ask("GET", "/runs/"+id, nil, &r)
	return r
}

// until waits until a run is as wanted.
func (s *server) until(id, what string, is func(r shown) bool) shown {
	s.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		r := s.run(id)
		if is(r) {
			return r
		}
		if time.Now().After(deadline) {
			s.Fatalf("run %s is not %s: %+v", id, what, r)
		}
		ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
		<-ctx.Done() // the events of the run do not tell of heartbeats that were not recorded
		cancel()
	}
}

// TestWorkers runs each worker with a token: it completes a task, stops one that is cancelled, and goes on where one
// that was killed has left off. On SIGTERM it finishes what it has, also while the server has had too many requests of
// it. One whose token is wrong ends.
func TestWorkers(t *testing.T) {
	nightly.Only(t, "it starts processes of three languages and waits for them")
	for name, called := range map[string]func(t *testing.T) []string{
		"python": func(t *testing.T) []string { return []string{language(t, "python3"), "worker.py"} },
		"shell": func(t *testing.T) []string {
			language(t, "curl")
			return []string{language(t, "sh"), "worker.sh"}
		},
		"typescript": func(t *testing.T) []string { return []string{language(t, "node"), javaScript(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := called(t)
			s := start(t)
			w := s.worker(command)
			r := s.until(s.begin(2), "succeeded", func(r shown) bool { return r.Phase == "succeeded" })
			if len(r.Steps[0].Attempts) != 1 || string(r.Output) != `{"rendered":2}` {
				t.Errorf("%s %+v", r.Output, r.Steps[0])
			}

			long := s.begin(1000)
			s.until(long, "running", func(r shown) bool { return r.Steps[0].Phase == "running" })
			s.ask("POST", "/runs/"+long+"/cancel", map[string]string{}, nil)
			r = s.until(long, "cancelled", func(r shown) bool { return r.Phase == "cancelled" })
			if r.Steps[0].Attempts[0].Abandoned {
				t.Errorf("it did not stop its work: %+v", r.Steps[0])
			}

			lost := s.begin(10)
			s.until(lost, "running", func(r shown) bool { return r.Steps[0].Phase == "running" })
			if err := w.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = w.Wait() // it was killed
			w = s.worker(command)
			r = s.until(lost, "succeeded", func(r shown) bool { return r.Phase == "succeeded" })
			if a := r.Steps[0].Attempts; len(a) != 2 || a[0].Outcome != "timeout" {
				t.Errorf("%+v", a)
			}

			last := s.begin(12) // the server takes fewer requests than that
			s.until(last, "running", func(r shown) bool { return r.Steps[0].Phase == "running" })
			if err := w.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := w.Wait(); err != nil {
				t.Errorf("on SIGTERM it ends with %v", err)
			}
			if r := s.run(last); r.Phase != "succeeded" {
				t.Errorf("it left its task: %+v", r)
			}

			s.token = "wrong"
			ended := make(chan error, 1)
			w = s.worker(command)
			go func() { ended <- w.Wait() }()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it ends well with a wrong token")
				}
			case <-time.After(20 * time.Second):
				t.Error("it goes on asking with a wrong token")
				_ = w.Process.Kill()
				<-ended
			}
		})
	}
}

// worker starts a worker.
func (s *server) worker(command []string) *exec.Cmd {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), command[0], append(command[1:], s.url)...)
	cmd.Env = append(os.Environ(), "PAWL_TOKEN="+s.token)
	cmd.Stdout, cmd.Stderr = s.Output(), s.Output()
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd
}

// language finds a program. Where it is missing, the test is skipped, or fails.
func language(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv(required) != "":
		t.Fatalf("%s is not installed, and %s is set", name, required)
	default:
		t.Skipf("SKIPPED: %s is not installed", name)
	}
	return ""
}

// javaScript returns worker.ts without its types: Node.js before 22.18 does not remove them itself.
func javaScript(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("worker.ts")
	if err != nil {
		t.Fatal(err)
	}
	res := api.Transform(string(source), api.TransformOptions{Loader: api.LoaderTS, Target: api.ES2022})
	if len(res.Errors) > 0 {
		t.Fatal(fmt.Sprint(res.Errors))
	}
	file := filepath.Join(t.TempDir(), "worker.mjs")
	if err := os.WriteFile(file, res.Code, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
