package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/worker"
)

// TestLeftoversEnd: a process that a killed pawl started for a step of this database still runs. The next pawl that
// opens the database ends it.
func TestLeftoversEnd(t *testing.T) {
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
