package pawlflow_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/pawlflow"
)

// TestLeftoversEnd checks that a process that a killed program started for a step of this database is ended when the
// next program opens the database, before anything is tried again.
func TestLeftoversEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "left.db")
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), "PAWL_OWNER="+worker.OwnerOf(path))
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	doc := parsed(t, "w", "steps: [{name: work, exec: [\"true\"]}]\n")
	e, err := pawl.Open(t.Context(), pawl.Config{
		Database: "sqlite:" + path, Workflows: []pawl.Definition{pawlflow.Define[any, any](doc)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it still runs")
		_ = left.Process.Kill()
		<-ended
	}
}
