//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tale keeps what a process prints, and wakes who waits for a part of it.
type tale struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *tale) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(b)
}

// await waits until what was printed matches. A part of it that was awaited before does not count again.
func (l *tale) await(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.After(patience); ; {
		l.mu.Lock()
		at, more := re.FindIndex(l.text.Bytes()), l.more
		if at != nil {
			l.text.Next(at[1])
		}
		rest := l.text.String()
		l.mu.Unlock()
		if at != nil {
			return
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("the process never printed %s:\n%s", pattern, rest)
		}
	}
}

// process is a pawl server that has told systemd that it is ready.
type process struct {
	*testing.T
	cmd     *exec.Cmd
	address string
	log     *tale
	notes   net.PacketConn // the messages that systemd gets
}

// startServer starts pawl server in a folder, and waits until it is ready.
func startServer(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := launchServer(t, dir, args...)
	p.told("READY=1")
	return p
}

// launchServer starts pawl server in a folder.
func launchServer(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return launch(t, command(t, dir), args...)
}

// launch makes a command that has no verb yet a server, and starts it.
func launch(t *testing.T, cmd *exec.Cmd, args ...string) *process {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "pawl") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "notify")
	notes, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = notes.Close() })
	p := &process{T: t, address: "http://127.0.0.1:" + port, log: &tale{more: make(chan struct{})}, notes: notes}
	p.cmd = cmd
	p.cmd.Args = append(append(p.cmd.Args, "server", "--listen", "127.0.0.1:"+port), args...)
	p.cmd.Env = append(p.cmd.Env, "NOTIFY_SOCKET="+socket)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("the server said:\n%s", p.log.text.String())
		}
	})
	return p
}

// told waits until systemd is told something.
func (p *process) told(want string) {
	p.Helper()
	text := make([]byte, 100)
	if err := p.notes.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.Fatal(err)
	}
	n, _, err := p.notes.ReadFrom(text)
	if err != nil || string(text[:n]) != want {
		p.log.mu.Lock()
		defer p.log.mu.Unlock()
		p.Fatalf("systemd was told %q, %v; want %s\n%s", text[:n], err, want, p.log.text.String())
	}
}

// signal sends a signal to the server.
func (p *process) signal(s syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// ask sends a request with a token, and returns the status and the body of its answer.
func (p *process) ask(token, method, path, body string, header ...string) (int, string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, p.address+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// createToken makes a token in the database of a folder.
func createToken(t *testing.T, dir, database string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, append([]string{"token", "create", "--database", database}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestServerReadsItsConfigurationAgain checks that SIGHUP applies the settings that can change, names those that
// cannot, and changes nothing where the file is wrong.
func TestServerReadsItsConfigurationAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const database = "sqlite:p.db"
	token := createToken(t, dir, database, "root", "--role", "admin", "--namespace", "*")
	write(t, dir, "pawl.yaml", "rate: 1000\n")
	p := startServer(t, dir, "--config", "pawl.yaml", "--database", database)
	status, text := p.ask(token, "GET", "/api/v1/runs", "", "Pawl-Namespace", "blue")
	if status != http.StatusNotFound {
		t.Errorf("before: %d %s", status, text)
	}
	write(t, dir, "pawl.yaml", "rate: [\n")
	p.signal(syscall.SIGHUP)
	p.log.await(t, "was not read again.*pawl.yaml")
	write(t, dir, "pawl.yaml", "rate: 1\nlog-level: loud\n")
	p.signal(syscall.SIGHUP)
	p.log.await(t, "was not read again.*loud")
	for range 20 { // more than a rate of 1 in a second allows
		if status, text := p.ask(token, "GET", "/api/v1/stats", ""); status != http.StatusOK {
			t.Fatalf("with a wrong file: %d %s", status, text)
		}
	}
	write(t, dir, "pawl.yaml", "rate: 5\nlog-level: debug\nprocesses: 3\nnamespaces: {blue: }\n")
	p.signal(syscall.SIGHUP)
	p.log.await(t, `needs a restart","key":"processes"`)
	p.log.await(t, `serving a namespace","namespace":"blue"`)
	p.log.await(t, "the configuration was read again")
	if status, text := p.ask(token, "GET", "/api/v1/runs", "", "Pawl-Namespace", "blue"); status != http.StatusOK {
		t.Errorf("in a new namespace: %d %s", status, text)
	}
	p.log.await(t, `"level":"DEBUG","msg":"request".*"namespace":"blue"`)
	refused := ""
	for range 20 {
		if status, text := p.ask(token, "GET", "/api/v1/stats", ""); status == http.StatusTooManyRequests {
			refused = text
		}
	}
	if !strings.Contains(refused, "more than 5 requests") {
		t.Errorf("20 requests at once with a rate of 5 were not refused: %s", refused)
	}
	write(t, dir, "pawl.yaml", "rate: 5\nlog-level: debug\n")
	p.signal(syscall.SIGHUP)
	p.log.await(t, `needs a restart","key":"namespaces"`)
	p.signal(syscall.SIGTERM)
	p.told("STOPPING=1")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// TestFlowsOfNamespaces checks that a flow of a namespace's folder starts there, and nowhere else.
func TestFlowsOfNamespaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const database = "sqlite:p.db"
	blue := createToken(t, dir, database, "ada", "--role", "operate", "--namespace", "blue")
	plain := createToken(t, dir, database, "bob", "--role", "operate")
	if err := os.MkdirAll(filepath.Join(dir, "flows", "blue"), 0o755); err != nil {
		t.Fatal(err)
	}
	flow := func(name string) string {
		return "pawl: 1\nname: " + name + "\nsteps: [{name: say, exec: \"echo said-" + name + "\"}]\n"
	}
	write(t, dir, "flows/plain.yaml", flow("plain"))
	write(t, dir, "flows/blue/bluish.yaml", flow("bluish"))
	p := startServer(t, dir, "--namespaces", "blue", "--database", database, "flows")
	runs := map[string]string{}
	for _, c := range []struct {
		token, flow string
		status      int
	}{
		{blue, "bluish", http.StatusCreated},
		{blue, "plain", http.StatusNotFound},
		{plain, "plain", http.StatusCreated},
		{plain, "bluish", http.StatusNotFound},
	} {
		status, text := p.ask(c.token, "POST", "/api/v1/runs", `{"workflow":"`+c.flow+`"}`)
		if status != c.status {
			t.Errorf("%s: %d %s, want %d", c.flow, status, text, c.status)
		}
		var started struct{ Run string }
		if err := json.Unmarshal([]byte(text), &started); status == http.StatusCreated && err == nil {
			runs[c.token] = started.Run
		}
	}
	for _, c := range []struct {
		token, run string
		status     int
	}{
		{blue, runs[blue], http.StatusOK},
		{plain, runs[plain], http.StatusOK},
		{blue, runs[plain], http.StatusNotFound},
		{plain, runs[blue], http.StatusNotFound},
	} {
		p.ask(c.token, "GET", "/api/v1/runs/"+c.run+"/outcome?wait=20s", "")
		status, text := p.ask(c.token, "GET", "/api/v1/runs/"+c.run+"/steps/say/attempts/1/log", "")
		if status != c.status {
			t.Errorf("the log of %s: %d %s", c.run, status, text)
		}
	}
	secret := filepath.Join(dir, "secret")
	write(t, dir, "secret", "said-secret")
	for _, step := range []string{"../../../secret", "..", "/etc/passwd", secret, "say/../../../secret", "\x00"} {
		for _, run := range []string{runs[plain], "..", "../.."} {
			path := "/api/v1/runs/" + url.PathEscape(run) + "/steps/" + url.PathEscape(step) + "/attempts/1/log"
			status, text := p.ask(plain, "GET", path, "")
			if status < 400 || status >= 500 || strings.Contains(text, "c2FpZC1zZWNyZXQ") {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "p.blue.db")); err != nil {
		t.Error(err)
	}
}

// TestServerTellsAboutProcesses checks that faults around the processes of steps do not change how the steps end, and
// that the server's log tells of them.
func TestServerTellsAboutProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const database = "sqlite:p.db"
	token := createToken(t, dir, database, "ada", "--role", "operate")
	if err := os.Mkdir(filepath.Join(dir, "flows"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "flows/say.yaml", "pawl: 1\nname: say\nsteps: [{name: it, exec: \"true\"}]\n")
	write(t, dir, "p.db.logs", "a file where the folder of logs should be")
	p := startServer(t, dir, "--database", database, "flows")
	if status, text := p.ask(token, "POST", "/api/v1/runs", `{"workflow":"say"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	p.log.await(t, `"level":"WARN","msg":"an attempt runs without a log".*"step":"it"`)
}
