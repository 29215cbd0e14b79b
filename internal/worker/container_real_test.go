//go:build linux

package worker

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
)

// realImage is the name of the image that the test makes.
const realImage = "localhost/pawl-test:latest"

// realProgram returns docker or podman, with an image whose program is the test's, or skips the test where neither of
// them can run a container.
func realProgram(t *testing.T) string {
	t.Helper()
	static := filepath.Join(pawlbin.Build(t, "./internal/worker/workertest/docker"), "docker")
	for _, name := range []string{"docker", "podman"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		load := exec.Command(program, "import", "-", realImage)
		load.Stdin = imageOf(t, static)
		if out, err := load.CombinedOutput(); err != nil {
			t.Logf("%s import: %v\n%s", name, err, out)
			continue
		}
		t.Cleanup(func() { _ = exec.Command(program, "rmi", "--force", realImage).Run() })
		probe := exec.Command(program, "run", "--rm", realImage, "/bin/inside", "inside")
		if out, err := probe.CombinedOutput(); err != nil {
			t.Logf("%s run: %v\n%s", name, err, out)
			continue
		}
		return program
	}
	t.Skip("NOT TESTED: neither docker nor podman can run a container on this machine")
	return ""
}

// imageOf returns the files of an image that has one program.
func imageOf(t *testing.T, program string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: "bin/inside", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text))},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestRealContainer checks a process in a container of docker or podman: its variables, its folder, its results, how it
// is stopped, and that what an earlier engine has left is ended.
func TestRealContainer(t *testing.T) {
	program := realProgram(t)
	workspace, logs := t.TempDir(), t.TempDir()
	cfg := ExecConfig{Containers: program, LogDir: logs, Owner: "real " + filepath.Base(workspace)}
	box := func(wait string) string {
		return workertest.JSON(t, map[string]any{
			"command": []string{"/bin/inside", "inside", wait},
			"env":     map[string]string{"A": "two\nlines", "HOME": "/tmp"},
			"container": map[string]any{
				"image": realImage, "workspace": workspace, "network": "none", "user": "1000:1000", "init": false,
			},
		})
	}
	if err := os.Chmod(workspace, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Run("ends", func(t *testing.T) {
		res := begin(t, cfg, workertest.Task("exec", box(""))).wait(t)
		if res.Failure != nil {
			t.Fatal(res.Failure)
		}
		want := `"A=two\nlines HOME=/tmp dir=/workspace uid=1000\n"`
		if got := workertest.Field(t, res.Output, "stdout"); got != want {
			t.Errorf("it printed %s, want %s", got, want)
		}
		if got := workertest.Field(t, res.Output, "result"); got != `"made"` {
			t.Errorf("its result is %s", got)
		}
		if made, err := os.ReadFile(filepath.Join(workspace, "made")); string(made) != "made" {
			t.Errorf("it made %q, %v", made, err)
		}
	})
	t.Run("is asked", func(t *testing.T) {
		r := begin(t, cfg, workertest.Task("exec", box("asked")))
		r.signs.Await(t)
		r.stop()
		if res := r.wait(t); res.Abandoned || res.Killed {
			t.Errorf("it was stopped as %+v", res)
		}
		task := workertest.Task("exec", "")
		log, err := os.ReadFile(LogPath(logs, task.Token, task.StepName))
		if err != nil || !strings.Contains(string(log), "asked to stop") {
			t.Errorf("its log is %q, %v", log, err)
		}
	})
	t.Run("is left", func(t *testing.T) {
		left := exec.Command(program, "run", "--rm", "--label", labelOwner+"="+cfg.Owner, realImage,
			"/bin/inside", "inside", "asked")
		out, err := left.StdoutPipe()
		if err == nil {
			err = left.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := EndLeftovers(cfg); err != nil {
			t.Fatal(err)
		}
		if err := left.Wait(); err == nil {
			t.Error("it has ended by itself")
		}
	})
}
