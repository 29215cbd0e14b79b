//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStoppedProcess checks a process that stands still while a step ends and its limit passes, as on a suspended
// laptop. The step has not timed out.
func TestStoppedProcess(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "flow.yaml", `pawl: 1
name: stopped
steps:
  - name: work
    exec: {shell: 'touch began; while [ ! -e go ]; do :; done; echo done > ended'}
    timeout: {startToClose: 2s}
`)
	cmd := command(t, dir, "run", "flow.yaml", "--id", "s")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	untilFile(t, filepath.Join(dir, "began"))
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "go", "")
	untilFile(t, filepath.Join(dir, "ended"))
	if err := exec.Command("sleep", "4").Run(); err != nil { // the time of the limit passes
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "succeeded in") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func untilFile(t *testing.T, path string) {
	t.Helper()
	for from := time.Now(); time.Since(from) < patience; {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	t.Fatalf("there is no %s", path)
}
