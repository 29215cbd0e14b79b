//go:build unix

package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/worker/workertest"
)

// play runs the test binary as a helper process: a worker that executes the shell line of an attempt.
func play(role string) {
	if role != "worker" {
		fmt.Fprintln(os.Stderr, "unknown role", role)
		os.Exit(2)
	}
	payload := os.Getenv("WORKER_TEST_PAYLOAD")
	if payload == "" {
		payload = string(EncodeJSON(map[string]any{"shell": os.Getenv("WORKER_TEST_SHELL")}))
	}
	task := workertest.Task("exec", payload)
	e := NewExec(ExecConfig{
		Owner: os.Getenv("WORKER_TEST_OWNER"), Containers: os.Getenv("WORKER_TEST_CONTAINERS"),
	})
	e.guard.failed = os.Getenv("WORKER_TEST_GUARD") == "none"
	res := e.Execute(context.Background(), &task, workertest.NewSigns())
	_ = e.Close()
	fmt.Println(string(res.Output), res.Failure)
}

// fifo is a named pipe that shows whether processes live. A process that opens it for writing keeps it open until it
// dies.
type fifo struct {
	path string
	t    *testing.T
	file *os.File
	in   *bufio.Reader
}

func newFIFO(t *testing.T) *fifo {
	t.Helper()
	f := &fifo{path: filepath.Join(t.TempDir(), "fifo"), t: t}
	if err := syscall.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	f.file, f.in = file, bufio.NewReader(file)
	return f
}

// line waits for a line that a process writes. As long as nobody has opened the pipe, reading returns the end of file.
func (f *fifo) line() string {
	f.t.Helper()
	for over := time.Now().Add(workertest.Patience); time.Now().Before(over); {
		_ = f.file.SetReadDeadline(over)
		line, err := f.in.ReadString('\n')
		if err == nil {
			return strings.TrimSpace(line)
		}
		pause()
	}
	f.t.Fatal("no process wrote a line")
	return ""
}

// dead waits until every process that had the pipe open is gone.
func (f *fifo) dead() {
	f.t.Helper()
	_ = f.file.SetReadDeadline(time.Now().Add(workertest.Patience))
	if _, err := io.Copy(io.Discard, f.in); err != nil {
		f.t.Fatalf("processes live: %v", err)
	}
}

// alive reports whether a process has the pipe open.
func (f *fifo) alive() bool {
	_ = f.file.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := f.in.ReadByte()
	return os.IsTimeout(err)
}

// pause waits a moment before the test checks again.
func pause() { <-time.After(2 * time.Millisecond) }
