package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/nightly"
)

const nodesFilesFlow = `pawl: 1
name: files
steps:
  - {name: build, exec: {shell: "echo data > $$.txt && mv $$.txt data.txt", dir: here, artifacts: data.txt}}
  - {name: train, needs: [build], task: {queue: q, type: Train, artifactsFrom: build}, timeout: 2m}
  - {name: use, needs: [train], exec: {shell: "cat model.txt", dir: there, artifactsFrom: train}}
`

// TestWorkerFilesInACluster checks that a worker of a cluster gets and sends files through one node, whichever node has
// the run, and that the nodes share what is kept.
func TestWorkerFilesInACluster(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	for _, dir := range []string{"here", "there", "temp"} {
		if err := os.Mkdir(filepath.Join(b.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(b.dir, "flows"), "files.yaml", nodesFilesFlow)
	b.more = append(b.more, "--artifacts", filepath.Join(b.dir, "kept"))
	one, c := b.node()
	_, other := b.node()
	b.await(3, 3)

	worker := b.command("worker", "--server", one.address, "--queue", "q", "--exec",
		`tr a-z A-Z < "$PAWL_FILES/data.txt" > "$PAWL_FILES/model.txt"`)
	worker.Env = append(worker.Env, "PAWL_TOKEN="+b.token, "TMPDIR="+filepath.Join(b.dir, "temp"))
	worker.Stderr = t.Output()
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(worker) })

	var ids []string
	for _, name := range strings.Fields("a b c d e f g h") { // they are in partitions of both nodes
		ids = append(ids, b.sent(other, "files", api.StartRequest{WorkflowID: name, UseExisting: true}))
	}
	b.ends(c, ids)
	for _, id := range ids {
		list, err := other.Artifacts(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for _, f := range list.Artifacts {
			kept = append(kept, f.Step+" "+f.Path)
		}
		if !slices.Equal(kept, []string{"build data.txt", "train model.txt"}) {
			t.Errorf("run %s has kept %v", id, kept)
		}
		r, err := c.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if last := string(r.Steps[len(r.Steps)-1].Output); !strings.Contains(last, `"stdout":"DATA\n"`) {
			t.Errorf("run %s has seen %s", id, last)
		}
	}
}

// stop ends a process that may be gone.
func stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
