//go:build unix

package examples_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestClusterShown does what the example cluster invites to: it kills a node, and sees that the others go on.
func TestClusterShown(t *testing.T) {
	nightly.Only(t, "nodes are killed, and leases run out")
	bin := pawlbin.Build(t, "./examples/cluster", "./cmd/pawl")
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "cluster"), "-pawl", filepath.Join(bin, "pawl"))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	until := func(what string) string {
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return lines.Text()
			}
		}
		err := cmd.Wait()
		if strings.Contains(said.String(), "programs are missing") && os.Getenv(pgtest.Required) != "1" {
			t.Skip(said.String())
		}
		t.Fatalf("it has ended before it said %q: %v %s", what, err, said.String())
		return ""
	}
	var node, pid int
	if _, err := fmt.Sscanf(until("is process"), "node %d is process %d:", &node, &pid); err != nil {
		t.Fatal(err)
	}
	until("runs started")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(fmt.Sprintf("node %d has ended: signal: killed", node))
	until("dead")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	until("runs were started; in the database")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v %s", err, said.String())
	}
}
