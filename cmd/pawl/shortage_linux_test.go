package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// smallDisk returns a folder on a file system of its own, of so many MiB.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-small-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", size)); err != nil {
		t.Skipf("SKIPPED: only root can make a small disk, so nothing was tested on a full one: %v", err)
	}
	t.Cleanup(func() { // runs after the server has stopped
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk writes a file until the disk is full. Calling empty makes room again.
func fillDisk(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; size /= 2 {
		for _, err = f.Write(make([]byte, size)); err == nil; _, err = f.Write(make([]byte, size)) {
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// phaseOf returns the phase of a run, and how long the answer took.
func (p *process) phaseOf(token, run string) (status int, phase string, took time.Duration) {
	p.Helper()
	began := time.Now()
	status, text := p.bearer(token, "GET", "/api/v1/runs/"+run, "")
	var r struct{ Phase string }
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			p.Fatal(err)
		}
	}
	return status, r.Phase, time.Since(began)
}

// awaitPhase waits until a run has a phase.
func (p *process) awaitPhase(token, run, want string) {
	p.Helper()
	for end := time.Now().Add(patience); ; {
		status, phase, _ := p.phaseOf(token, run)
		if phase == want {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("the run %s: %d %s, want %s", run, status, phase, want)
		}
	}
}

// TestFullDiskOfAServer checks that a server whose disk is full answers what only reads, refuses the rest with the
// reason, says in its log when that begins and ends, and goes on when there is room: nothing acknowledged is lost.
func TestFullDiskOfAServer(t *testing.T) {
	nightly.Only(t, "it fills a disk of its own")
	dir := smallDisk(t, 12)
	database := "sqlite:" + dir + "/pawl.db"
	token := tokenOf(t, t.TempDir(), database, "admin")
	p := startServer(t, t.TempDir(), "--database", database)
	start := func(id, step string) (int, string) {
		text := "pawl: 1\nname: a\nsteps:\n  - {name: b, " + step + "}\n"
		body, err := json.Marshal(map[string]string{"flow": text, "workflowId": id})
		if err != nil {
			t.Fatal(err)
		}
		return p.bearer(token, "POST", "/api/v1/runs", string(body))
	}
	open := filepath.Join(t.TempDir(), "open")
	waits := "exec: 'until [ -e " + open + " ]; do sleep 0.1; done'"
	for id, step := range map[string]string{"closed": "noop: {}", "open": waits} {
		if status, text := start(id, step); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
	}
	p.awaitPhase(token, "closed", "succeeded")
	p.awaitPhase(token, "open", "running")
	empty := fillDisk(t, dir)
	if err := os.WriteFile(open, nil, 0o600); err != nil { // the attempt ends, and that cannot be recorded
		t.Fatal(err)
	}
	p.log.await(t, `"id":"storage-stalled"`)
	for range 3 {
		for _, path := range []string{
			"/runs/closed", "/runs/open", "/runs?limit=10", "/counts", "/runs/closed/history", "/runs/closed/outcome",
		} {
			began := time.Now()
			status, text := p.bearer(token, "GET", "/api/v1"+path, "")
			took := time.Since(began)
			stalled := status == http.StatusServiceUnavailable && strings.Contains(text, `"code":"stalled"`)
			if status != http.StatusOK && !stalled || took > 3*time.Second {
				t.Errorf("%s after %s: %d %s", path, took, status, text)
			}
		}
		status, text := start("late", "noop: {}")
		if status != http.StatusServiceUnavailable {
			t.Errorf("a start: %d %s", status, text)
		}
		if status, text := p.bearer(token, "GET", "/readyz", ""); status != http.StatusServiceUnavailable {
			t.Errorf("ready: %d %s", status, text)
		}
	}
	p.log.await(t, `"level":"ERROR","msg":"request".*"status":503.*"code":"stalled"`)
	empty()
	p.log.await(t, `"level":"INFO","msg":"the journal takes writes again"`)
	p.awaitPhase(token, "open", "succeeded")
	for end := time.Now().Add(patience); ; {
		status, text := start("after", "noop: {}")
		if status == http.StatusCreated || status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a start when there is room: %d %s", status, text)
		}
	}
	p.awaitPhase(token, "after", "succeeded")
}

// TestFewDescriptors checks that a server with few file descriptors has no more connections than leave some for its
// work, and that steps which cannot begin meanwhile use up no attempt.
func TestFewDescriptors(t *testing.T) {
	nightly.Only(t, "it starts the binary")
	dir := t.TempDir()
	database := "sqlite:" + dir + "/pawl.db"
	token := tokenOf(t, dir, database, "admin")
	cmd := command(t, dir)
	limited := exec.Command("/bin/sh", append([]string{"-c", `ulimit -n 64; exec "$@"`, "sh"}, cmd.Args...)...)
	limited.Args[3], limited.Dir, limited.Env = "sh", cmd.Dir, cmd.Env
	limited.Args[4] = cmd.Path
	p := launch(t, limited, "--database", database)
	p.told("READY=1")
	streams := openStreams(p, token, 13) // a quarter of the descriptors allows 16 connections
	for i := range 10 {
		body := fmt.Sprintf(`{"flow":"pawl: 1\nname: a\nsteps: [{name: b, exec: \"true\"}]","workflowId":"w%d"}`, i)
		if status, text := p.bearer(token, "POST", "/api/v1/runs", body); status != http.StatusCreated {
			t.Errorf("%d %s", status, text)
		}
	}
	for i := range 10 {
		p.awaitPhase(token, fmt.Sprint("w", i), "succeeded") // each has one attempt
	}
	more := openConnections(p, 40) // the server takes three of them, and all when there is room
	for _, c := range streams {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range more {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(patience); ; {
		if status, _ := p.bearer(token, "GET", "/readyz", ""); status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is not ready when the connections are closed")
		}
	}
}

// openConnections opens connections that say nothing.
func openConnections(p *process, many int) []net.Conn {
	p.Helper()
	var out []net.Conn
	for range many {
		c, err := new(net.Dialer).DialContext(p.Context(), "tcp", strings.TrimPrefix(p.address, "http://"))
		if err != nil {
			p.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// openStreams opens streams of all changes.
func openStreams(p *process, token string, many int) []net.Conn {
	p.Helper()
	out := openConnections(p, many)
	for _, c := range out {
		_, err := fmt.Fprintf(c, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
		if err != nil {
			p.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			p.Fatalf("a stream: %+v, %v", answer, err)
		}
	}
	return out
}

// TestDamagedFileOfAServer checks that a server whose file is damaged while it is open is not ready any more, and does
// not become so by itself: what cannot be read today may be read by chance tomorrow.
func TestDamagedFileOfAServer(t *testing.T) {
	nightly.Only(t, "it starts the binary")
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.db")
	token := tokenOf(t, dir, "sqlite:"+path, "admin")
	p := startServer(t, dir, "--database", "sqlite:"+path)
	if status, text := p.bearer(token, "GET", "/readyz", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			continue // there is no log at present
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(strings.Repeat("damage! ", int(info.Size())/8)), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(patience); ; {
		if status, _ := p.bearer(token, "GET", "/readyz", ""); status == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is ready with a damaged file")
		}
	}
	for range 20 {
		if status, text := p.bearer(token, "GET", "/readyz", ""); status != http.StatusServiceUnavailable {
			t.Fatalf("it is ready again: %d %s", status, text)
		}
	}
}
