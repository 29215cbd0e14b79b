package examples_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestNodesKilled kills one of three processes that share a database, with kill -9, while it works. The orders of all
// three are done.
func TestNodesKilled(t *testing.T) {
	server := pgtest.StartServer(t)
	address := server.DSN() + "&partitions=6&" + server.Lease()
	dir := t.TempDir()
	bin := filepath.Join(pawlbin.Build(t, "./examples/nodes"), "nodes")
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) (*exec.Cmd, <-chan string) {
		cmd := exec.CommandContext(t.Context(), bin, append(args, "-database", address, "-secret", secret)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := make(chan string, 1000)
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(out); s.Scan(); {
				lines <- s.Text()
			}
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		})
		return cmd, lines
	}
	until := func(lines <-chan string, begin string) {
		for line := range lines {
			if strings.HasPrefix(line, begin) {
				return
			}
		}
		t.Fatalf("a process has ended before it said %q", begin)
	}
	const orders = 18
	victim, of := start()
	until(of, "partitions [0")
	_, other := start()
	until(other, "partitions")
	_, placed := start("-orders", fmt.Sprint(orders))
	until(of, "order ")
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for line := range placed {
		if strings.Contains(line, " is carried to ") || strings.Contains(line, " was taken back") {
			done[line] = true
		}
	}
	if len(done) != orders {
		t.Errorf("%d of %d orders are carried or taken back: %v", len(done), orders, done)
	}
}
