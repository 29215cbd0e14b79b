package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/pawlbin"
)

// exampleJobs returns flows of the examples, for TestCrash: their runs end by themselves or by one event.
func exampleJobs(t *testing.T) []func() crashJob {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	example := func(folder string, args ...string) crashJob {
		return crashJob{
			args: append([]string{"flow.yaml"}, args...), ends: []string{"run.succeeded"},
			files: exampleFiles(t, filepath.Join(root, "examples", folder)),
		}
	}
	store := sync.OnceValue(func() string { return objectStore(t, root) })
	return []func() crashJob{
		func() crashJob { return example("build") },
		func() crashJob { return example("tenants") },
		// Its own limit is of seconds, and what is killed again and again needs more.
		func() crashJob { return example("order", "--input", "stock=true", "--timeout", "2m") },
		func() crashJob {
			job := example("pages", "--input", "pages=5")
			job.children = 1
			return job
		},
		func() crashJob {
			job := example("approval", "--input", "change=limit")
			job.waits = "approved"
			return job
		},
		func() crashJob {
			job := example("backup", "--input", "dir=examples", "--input", "store="+store())
			job.args[0], job.folder = filepath.Join("examples", "backup", "flow.yaml"), root
			return job
		},
	}
}

// exampleFiles returns the flows of a folder.
func exampleFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no flows in %s: %v", folder, err)
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = string(text)
	}
	return files
}

// objectStore runs the misbehaving store of the example backup until the test ends. The flow finds it running.
func objectStore(t *testing.T, root string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	bin := pawlbin.Build(t, "./examples/backup/objectserver")
	store := exec.Command(filepath.Join(bin, "objectserver"), "-listen", address)
	if err := store.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = store.Process.Kill()
		_ = store.Wait()
	})
	return address
}
