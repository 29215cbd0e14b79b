//go:build unix

package worker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// standIn returns the path of a program that stands in for docker, and the folder in which it keeps its containers.
func standIn(t *testing.T) (program, state string) {
	t.Helper()
	state = t.TempDir()
	t.Setenv("STANDIN_DIR", state)
	t.Cleanup(func() { // whatever a failed test has left
		kept, _ := filepath.Glob(filepath.Join(state, "*.json"))
		for _, path := range kept {
			_ = exec.Command(program, "kill", strings.TrimSuffix(filepath.Base(path), ".json")).Run()
		}
	})
	return filepath.Join(pawlbin.Build(t, "./internal/worker/workertest/docker"), "docker"), state
}

// kept returns the files of the stand-in's containers.
func kept(t *testing.T, state string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(state, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// inContainer adds a container to what a task says.
func inContainer(container map[string]any, more map[string]any) map[string]any {
	out := map[string]any{"container": container}
	for key, value := range more {
		out[key] = value
	}
	return out
}

// TestContainer checks what a process in a container gets and gives: its variables, without those of the worker, its
// folders, its input and its results.
func TestContainer(t *testing.T) {
	program, state := standIn(t)
	workspace, logs := t.TempDir(), t.TempDir()
	t.Setenv("OF_THE_WORKER", "x")
	t.Setenv("HANDED_ON", "by name")
	const script = `
		read line; echo "$line, $A, $HOME, $OF_THE_WORKER, $HANDED_ON, $STANDIN_USER, $PAWL_ATTEMPT"
		echo two >> made; echo result=$B >> "$PAWL_OUTPUT"; ls "$PAWL_OUTPUT" >&2`
	task := shellTask(t, script, inContainer(
		map[string]any{
			"image": "alpine", "workspace": workspace, "user": "7:8", "inherit": []string{"HANDED_ON", "NOT_SET"},
			"options": []string{"--memory", "1g"}, "network": "none", "pull": "never",
		},
		map[string]any{
			"stdin": "one\n", "dir": "sub", "env": map[string]string{"A": "secret\nvalue", "HOME": "/root"},
			"defaults": map[string]string{"B": "default"},
		}))
	if err := os.Mkdir(filepath.Join(workspace, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	res := begin(t, ExecConfig{Containers: program, LogDir: logs}, task).wait(t)
	if res.Failure != nil {
		t.Fatal(res.Failure)
	}
	want := `"one, secret\nvalue, /root, , by name, 7:8, 2\n"`
	if got := workertest.Field(t, res.Output, "stdout"); got != want {
		t.Errorf("it printed %s, want %s", got, want)
	}
	if got := workertest.Field(t, res.Output, "result"); got != `"default"` {
		t.Errorf("its result is %s", got)
	}
	if made, err := os.ReadFile(filepath.Join(workspace, "sub", "made")); string(made) != "two\n" {
		t.Errorf("it made %q, %v", made, err)
	}
	if left := kept(t, state); left != nil {
		t.Errorf("there are still %v", left)
	}
	err := filepath.WalkDir(logs, func(path string, d os.DirEntry, err error) error {
		if name := d.Name(); strings.HasSuffix(name, ".env") || strings.HasSuffix(name, ".out") {
			t.Errorf("the worker leaves %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestContainerHidesVariables checks that the values of variables are not in the arguments of the client, which
// everybody on the machine can read.
func TestContainerHidesVariables(t *testing.T) {
	program, state := standIn(t)
	f := newFIFO(t)
	r := begin(t, ExecConfig{Containers: program}, shellTask(t, `echo ready > "$FIFO"; exec sleep 1000`,
		inContainer(map[string]any{"image": "alpine"}, map[string]any{
			"env": map[string]string{"TOKEN": "hunter22", "HTTP_PROXY": "http://u:hunter22@p", "FIFO": f.path},
		})))
	f.line()
	text, err := os.ReadFile(kept(t, state)[0])
	if err != nil {
		t.Fatal(err)
	}
	_, call, _ := strings.Cut(string(text), `"Call"`)
	if !strings.Contains(call, `"TOKEN"`) || strings.Contains(call, "hunter22") ||
		strings.Count(string(text), "hunter22") != 2 {
		t.Errorf("the container is %s", text)
	}
	r.stop()
	if res := r.wait(t); res.Abandoned || res.Killed {
		t.Errorf("it was stopped as %+v", res)
	}
}

// TestContainerPrograms checks what runs in a container: a command in place of the image's own program, that program
// with arguments, or a script that ends with its first failure.
func TestContainerPrograms(t *testing.T) {
	program, _ := standIn(t)
	box := map[string]any{"image": "alpine"}
	for name, c := range map[string]struct {
		payload map[string]any
		want    string
		failure string
	}{
		"a command": {
			payload: map[string]any{"command": []string{"echo", "a", "b c"}, "container": box}, want: `"a b c\n"`,
		},
		"its own": {
			payload: map[string]any{"container": map[string]any{"image": "x", "args": []string{"a", "b"}}},
			want:    `"own program: a b\n"`,
		},
		"another interpreter": {
			payload: map[string]any{"shell": "echo $0", "interpreter": []string{"/bin/sh", "-c"}, "container": box},
			want:    `"/bin/sh\n"`,
		},
		"a failing line": {
			payload: map[string]any{"shell": "echo a\nfalse\necho b", "container": box}, failure: "exit",
		},
		"no such program": {
			payload: map[string]any{"command": []string{"no-such-program"}, "container": box}, failure: "not_found",
		},
		"no such image": {
			payload: map[string]any{"shell": "true", "container": map[string]any{"image": "missing"}},
			failure: "container",
		},
		"no image": {payload: map[string]any{"container": map[string]any{}}, failure: "invalid_payload"},
		"an option": {
			payload: map[string]any{"container": map[string]any{"image": "--privileged"}}, failure: "invalid_payload",
		},
		"a bad volume": {
			payload: map[string]any{"container": map[string]any{"image": "x", "volumes": []string{"a"}}},
			failure: "invalid_payload",
		},
		"a bad variable": {
			payload: map[string]any{"shell": "true", "container": box, "env": map[string]string{"PATH": "a\nb"}},
			failure: "invalid_payload",
		},
	} {
		t.Run(name, func(t *testing.T) {
			task := workertest.Task("exec", workertest.JSON(t, c.payload))
			res := begin(t, ExecConfig{Containers: program}, task).wait(t)
			switch {
			case c.failure == "" && res.Failure != nil, c.failure != "" && res.Failure == nil:
				t.Fatalf("failure: %v", res.Failure)
			case c.failure != "" && res.Failure.Type != c.failure:
				t.Fatalf("failure: %+v", res.Failure)
			case c.failure == "" && workertest.Field(t, res.Output, "stdout") != c.want:
				t.Errorf("it printed %s", workertest.Field(t, res.Output, "stdout"))
			}
		})
	}
}

// TestNoContainerProgram checks that a worker without a program for containers says so, once and for all attempts, and
// that one whose program does not answer tries again.
func TestNoContainerProgram(t *testing.T) {
	program, state := standIn(t)
	task := shellTask(t, "true", inContainer(map[string]any{"image": "alpine"}, nil))
	res := begin(t, ExecConfig{Containers: "no-such-docker"}, task).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "not_found")
	if !strings.Contains(res.Failure.Message, "--container-program") {
		t.Error(res.Failure)
	}
	t.Setenv("PATH", t.TempDir())
	res = begin(t, ExecConfig{}, task).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "not_found")
	if !strings.Contains(res.Failure.Message, "neither docker nor podman") {
		t.Error(res.Failure)
	}
	if err := os.WriteFile(filepath.Join(state, "down"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	res = begin(t, ExecConfig{Containers: program}, task).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindError, "container")
}

// TestContainerStops checks that the steps by which work is stopped reach the container, and not its client alone: it
// is asked, it is killed where it does not heed that, and a client that waits for the image is asked itself.
func TestContainerStops(t *testing.T) {
	const heeds = `trap 'echo asked > "$FIFO"; exit 3' TERM; echo ready > "$FIFO"; while :; do sleep 0.01; done`
	const ignores = `trap '' TERM; exec 9> "$FIFO"; echo ready >&9; while :; do sleep 0.01; done`
	for name, c := range map[string]struct {
		line, image string
		killed      bool
	}{
		"asked": {heeds, "alpine", false}, "killed": {ignores, "alpine", true}, "pulled": {heeds, "slow", false},
	} {
		t.Run(name, func(t *testing.T) {
			program, state := standIn(t)
			f := newFIFO(t)
			grace := 10_000
			if c.killed {
				grace = 50
			}
			r := begin(t, ExecConfig{Containers: program}, shellTask(t, c.line, inContainer(
				map[string]any{"image": c.image},
				map[string]any{"grace": grace, "env": map[string]string{"FIFO": f.path}})))
			if c.image == "slow" {
				r.stop()
			} else {
				f.line()
				r.stop()
			}
			if name == "asked" && f.line() != "asked" {
				t.Error("it was not asked")
			}
			res := r.wait(t)
			if res.Abandoned || res.Killed != c.killed {
				t.Errorf("it was stopped as %+v", res)
			}
			if left := kept(t, state); left != nil {
				t.Errorf("there are still %v", left)
			}
			f.dead()
		})
	}
}

// TestContainerOutlivesItsClient checks that the end of the client alone is not the end of an attempt: the container is
// ended, too, before another one begins.
func TestContainerOutlivesItsClient(t *testing.T) {
	program, state := standIn(t)
	f := newFIFO(t)
	task := shellTask(t, `exec 9> "$FIFO"; echo ready >&9; exec sleep 1000`, inContainer(
		map[string]any{"image": "alpine"}, map[string]any{"env": map[string]string{"FIFO": f.path}}))
	r := begin(t, ExecConfig{Containers: program, Owner: "client"}, task)
	f.line()
	for _, pid := range marked([]string{"PAWL_RUN_ID=" + task.Token.Run.String(), "PAWL_OWNER=client"}) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	res := r.wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindError, "signal")
	f.dead()
	if left := kept(t, state); left != nil {
		t.Errorf("there are still %v", left)
	}
	removeMarker(t, "client")
}

func removeMarker(t *testing.T, owner string) {
	t.Helper()
	_ = os.Remove(markerOf(ExecConfig{Owner: owner}))
}

// TestLeftoverContainers checks that an engine ends the containers that an earlier one with its owner has left, and
// those of nobody else; where the program does not answer then, the first attempt in a container does it.
func TestLeftoverContainers(t *testing.T) {
	program, state := standIn(t)
	f, other := newFIFO(t), newFIFO(t)
	logs := t.TempDir()
	cfg := ExecConfig{Containers: program, Owner: "mine", LogDir: logs}
	leave := func(owner, name, path string) {
		t.Helper()
		cmd := exec.Command(program, "run", "--rm", "--name", name, "--label", labelOwner+"="+owner,
			"--env", "FIFO", "--entrypoint", "/bin/sh", "alpine", "-c",
			`exec 9> "$FIFO"; echo ready >&9; exec sleep 1000`)
		cmd.Env = append(os.Environ(), "FIFO="+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	marker := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(logs, ".containers"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leave("mine", "left", f.path)
	leave("somebody else", "theirs", other.path)
	f.line()
	other.line()
	if err := EndContainers(context.Background(), cfg); err != nil || len(kept(t, state)) != 2 {
		t.Fatalf("without a sign of containers: %v, %v", err, kept(t, state))
	}
	marker()
	down := filepath.Join(state, "down")
	if err := os.WriteFile(down, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := EndLeftovers(cfg); err != nil {
		t.Fatalf("an engine does not begin: %v", err)
	}
	task := shellTask(t, "true", inContainer(map[string]any{"image": "alpine"}, nil))
	workertest.WantFailure(t, begin(t, cfg, task).wait(t).Failure, policy.KindError, "container")
	if err := os.Remove(down); err != nil {
		t.Fatal(err)
	}
	if res := begin(t, cfg, task).wait(t); res.Failure != nil {
		t.Fatal(res.Failure)
	}
	f.dead()
	if left := kept(t, state); len(left) != 1 || filepath.Base(left[0]) != "theirs.json" {
		t.Errorf("there are %v", left)
	}
	leave("mine", "again", f.path)
	f.line()
	if err := EndLeftovers(cfg); err != nil {
		t.Fatal(err)
	}
	f.dead()
}

// TestContainerEndsWithItsWorker checks that the guard of a killed worker ends its containers.
func TestContainerEndsWithItsWorker(t *testing.T) {
	program, state := standIn(t)
	f := newFIFO(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	payload := workertest.JSON(t, map[string]any{
		"shell": `exec 9> "$FIFO"; echo ready >&9; exec sleep 1000`, "env": map[string]string{"FIFO": f.path},
		"container": map[string]any{"image": "alpine"},
	})
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "WORKER_TEST_ROLE=worker", "WORKER_TEST_PAYLOAD="+payload,
		"WORKER_TEST_CONTAINERS="+program, "TMPDIR="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.line()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	f.dead()
	for over := time.Now().Add(workertest.Patience); len(kept(t, state)) > 0; pause() {
		if time.Now().After(over) {
			t.Fatal("the container is still there")
		}
	}
}
