package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/worker"
)

// TestNoStepOutlivesPawl checks that the processes of a command's steps and their children end, however the command
// ends.
func TestNoStepOutlivesPawl(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*exec.Cmd, io.Closer) error{
		"kill -9":                    func(c *exec.Cmd, _ io.Closer) error { return c.Process.Kill() },
		"nobody reads what it tells": func(_ *exec.Cmd, out io.Closer) error { return out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			alive := filepath.Join(dir, "alive")
			if err := syscall.Mkfifo(alive, 0o600); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "w.yaml", "pawl: 1\nname: w\nsteps:\n"+
				"  - {name: work, exec: {shell: 'exec 9>alive; sleep 1000 & echo begun >&9; wait'}}\n"+
				"  - {name: talk, needs: [], sleep: 10ms, forEach: '${{ input }}', concurrency: 1}\n")
			write(t, dir, "items.json", "[0"+strings.Repeat(",0", 2000)+"]")
			c := command(t, dir, "run", "w.yaml", "--input", "@items.json", "--database", "sqlite:left.db")
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			fifo, err := os.OpenFile(alive, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer fifo.Close()
			over := time.Now().Add(20 * time.Second)
			for n := 0; n == 0; n, _ = fifo.Read(make([]byte, 6)) { // 0 until the step has opened it
				if time.Now().After(over) {
					t.Fatal("the step does not begin")
				}
				<-time.After(time.Millisecond)
			}
			if err := end(c, out); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait()
			_ = fifo.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, fifo); err != nil {
				t.Errorf("a process of the step lives: %v", err)
			}
			if status := c.ProcessState.ExitCode(); name != "kill -9" && status != exitCancelled {
				t.Errorf("exit status %d", status)
			}
		})
	}
}

// TestLeftoversEnd checks that a process which a killed pawl has left running for a step of this database ends when
// the next pawl opens the database.
func TestLeftoversEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), "PAWL_OWNER="+worker.OwnerOf(filepath.Join(dir, "left.db")))
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	write(t, dir, "w.yaml", "pawl: 1\nname: w\nsteps: [{name: work, exec: [\"true\"]}]\n")
	if out, err := command(t, dir, "run", "w.yaml", "--database", "sqlite:left.db").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("it still runs")
		_ = left.Process.Kill()
		<-ended
	}
}
