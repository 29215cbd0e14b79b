package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

const filesFlow = `pawl: 1
name: work
input: {properties: {n: {type: integer}}}
steps:
  - {name: build, exec: {shell: "mkdir -p made && echo data > made/data.txt", dir: here, artifacts: made}}
  - name: train
    needs: [build]
    task: {queue: q, type: Train, input: {n: 1}, artifactsFrom: build}
    timeout: {startToClose: 6s}
    retry: "fixed(20, 10ms)"
  - {name: show, needs: [train], task: {queue: q, type: Show, artifactsFrom: [build, train]}, timeout: 2m}
  - name: use
    needs: [train, show]
    exec: {shell: "cat made/data.txt model/small.txt seen.txt", dir: there, artifactsFrom: [build, train, show]}
`

// trainer is the command of the worker: it makes a small and a large file of what it has taken.
const trainer = `cd "$PAWL_FILES"
if test $PAWL_TASK_TYPE = Show; then cat made/data.txt model/small.txt > seen.txt; rm -r model; exit; fi
mkdir model
tr a-z A-Z < made/data.txt > model/small.txt
head -c 4000000 /dev/zero > model/large.bin
`

// withFiles starts a server with the flow.
func withFiles(t *testing.T) *killing {
	t.Helper()
	k := &killing{T: t, dir: t.TempDir()}
	for _, dir := range []string{"flows", "here", "there"} {
		if err := os.Mkdir(filepath.Join(k.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, k.dir, "flows/work.yaml", filesFlow)
	write(t, k.dir, "train.sh", trainer)
	k.serve()
	t.Cleanup(func() { k.kill(k.server) })
	return k
}

// trainer starts a worker that reaches the server at an address, and ends with the test at the latest.
func (k *killing) trainer(at string) *exec.Cmd {
	k.Helper()
	cmd := command(k.T, k.dir, "worker", "--server", at, "--queue", "q", "--exec", "sh -e train.sh")
	cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(k.dir, "temp"))
	cmd.Stderr = k.Output()
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
	})
	return cmd
}

// TestWorkerFiles checks that a worker on another machine gets the files of earlier steps, and that later steps get
// what it has made, here and there.
func TestWorkerFiles(t *testing.T) {
	t.Parallel()
	k := withFiles(t)
	if err := os.Mkdir(filepath.Join(k.dir, "temp"), 0o755); err != nil {
		t.Fatal(err)
	}
	k.trainer(k.url)
	run := k.start(1)[0]
	k.succeeds(run)
	list, err := k.client.Artifacts(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, f := range list.Artifacts {
		kept = append(kept, f.Step+" "+f.Path)
	}
	want := "build made/data.txt, show seen.txt, train model/large.bin, train model/small.txt"
	if got := strings.Join(kept, ", "); got != want {
		t.Errorf("kept are %s, want %s", got, want)
	}
	if left, err := filepath.Glob(filepath.Join(k.dir, "temp", "pawl-files*")); err != nil || len(left) > 0 {
		t.Errorf("the worker leaves %v, %v", left, err)
	}
}

// succeeds checks that a run succeeds, and that its last step has seen all files.
func (k *killing) succeeds(run string) {
	k.Helper()
	out, err := k.client.Wait(k.Context(), run)
	if err != nil || out.Phase != api.RunSucceeded {
		k.Fatalf("%+v, %v", out, err)
	}
	r, err := k.client.Run(k.Context(), run)
	if err != nil {
		k.Fatal(err)
	}
	if last := string(r.Steps[len(r.Steps)-1].Output); !strings.Contains(last, `"stdout":"data\nDATA\ndata\nDATA\n"`) {
		k.Errorf("the last step has seen %s", last)
	}
}

// cutting is a body that is cut off while it is sent.
type cutting struct {
	io.ReadCloser
	left int
	cut  func()
}

func (c *cutting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p[:min(len(p), 64<<10)])
	if c.left -= n; c.left < 0 {
		c.cut()
	}
	return n, err
}

// interrupting forwards requests to a server, and does something once in the middle of a large content.
func interrupting(to *url.URL, do func()) *httptest.Server {
	var once sync.Once
	return httptest.NewServer(&httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if r.Out.Method == http.MethodPut && r.Out.ContentLength > 1<<20 {
				r.Out.Body = &cutting{r.Out.Body, 1 << 20, func() { once.Do(do) }}
			}
		},
	})
}

// killWhileSending starts a run and a worker, and kills one of the processes while the worker sends a file.
func killWhileSending(k *killing, victim func(worker *exec.Cmd) *exec.Cmd) (run string) {
	k.Helper()
	if err := os.Mkdir(filepath.Join(k.dir, "temp"), 0o755); err != nil {
		k.Fatal(err)
	}
	to, err := url.Parse(k.url)
	if err != nil {
		k.Fatal(err)
	}
	var worker *exec.Cmd
	killed := make(chan struct{})
	between := interrupting(to, func() {
		k.kill(victim(worker))
		close(killed)
	})
	k.Cleanup(between.Close)
	worker = k.trainer(between.URL)
	run = k.start(1)[0]
	select {
	case <-killed:
	case <-time.After(time.Minute):
		k.Fatal("nobody sends a file")
	}
	return run
}

// TestServerKilledWhileSending checks that a server which dies while a worker sends it a file has nothing that looks
// whole, and that the worker sends the file to the next one: in the same attempt, or where that was lost in another.
func TestServerKilledWhileSending(t *testing.T) {
	t.Parallel()
	k := withFiles(t)
	run := killWhileSending(k, func(*exec.Cmd) *exec.Cmd { return k.server })
	k.serve()
	k.succeeds(run)
	list, err := k.client.Artifacts(t.Context(), run)
	if err != nil || len(list.Artifacts) != 4 {
		t.Fatalf("kept are %+v, %v", list, err)
	}
	for _, f := range list.Artifacts {
		content, _, err := k.client.Artifact(t.Context(), run, f.SHA256)
		if err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		sum := sha256.New()
		n, err := io.Copy(sum, content)
		if err = errors.Join(err, content.Close()); err != nil || n != f.Size ||
			hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
			t.Errorf("%s has %d bytes, not %d, or others: %v", f.Path, n, f.Size, err)
		}
	}
}

// TestWorkerKilledWhileSending checks that a worker which dies while it sends a file leaves nothing that looks whole:
// the attempt after it sends the file, and only that one is kept.
func TestWorkerKilledWhileSending(t *testing.T) {
	t.Parallel()
	k := withFiles(t)
	run := killWhileSending(k, func(worker *exec.Cmd) *exec.Cmd { return worker })
	list, err := k.client.Artifacts(t.Context(), run)
	if err != nil || len(list.Artifacts) != 1 {
		t.Fatalf("kept are %+v, %v", list, err)
	}
	k.trainer(k.url)
	k.succeeds(run)
	if list, err = k.client.Artifacts(t.Context(), run); err != nil || len(list.Artifacts) != 4 {
		t.Fatalf("kept are %+v, %v", list, err)
	}
	for _, f := range list.Artifacts {
		if f.Step == "train" && f.Attempt < 2 {
			t.Errorf("attempt %d has kept %s", f.Attempt, f.Path)
		}
	}
	err = filepath.WalkDir(filepath.Join(k.dir, "k.db.artifacts"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".new") {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFilesOfAnAttempt checks what the server refuses: files of another's attempt or of one that has ended, contents
// that are not what they are said to be, and too many bytes.
func TestFilesOfAnAttempt(t *testing.T) {
	t.Parallel()
	k := withFiles(t)
	ctx, c := t.Context(), httpapi.Files{Client: k.client}
	k.start(1)
	tasks, err := k.client.Poll(ctx, api.PollRequest{Queue: "q", Wait: api.Duration(30 * time.Second)})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%+v, %v", tasks, err)
	}
	task := tasks[0].Task
	sum := sha256.Sum256([]byte("content"))
	name := hex.EncodeToString(sum[:])
	refused := func(what string, err error, want api.Code) {
		t.Helper()
		if code := api.CodeOf(err); code != want {
			t.Errorf("%s: %s (%v), want %s", what, code, err, want)
		}
	}
	keep := func(task, path string, size int64) ([]string, error) {
		return c.KeepFiles(ctx, task, []api.AttemptFile{{Path: path, Size: size, SHA256: name}})
	}
	send := func(task, text string, size int64) error {
		return c.SendContent(ctx, task, name, size, strings.NewReader(text))
	}
	missing, err := keep(task, "a/b.txt", 7)
	if err != nil || len(missing) != 1 || missing[0] != name {
		t.Errorf("missing are %v, %v", missing, err)
	}
	for i, wrong := range []string{"x", task[:len(task)-3] + "AAA", strings.Map(rot, task)} {
		_, err := keep(wrong, "a.txt", 7)
		if code := api.CodeOf(err); code != api.CodeStale && code != api.CodeInvalid && code != api.CodeNotFound {
			t.Errorf("token %d: %v", i, err)
		}
		if err := send(wrong, "content", 7); err == nil {
			t.Errorf("token %d sends", i)
		}
		if _, err := c.Content(ctx, wrong, name); err == nil {
			t.Errorf("token %d gets", i)
		}
	}
	_, err = keep(task, "../a", 7)
	refused("above the folder", err, api.CodeInvalid)
	_, err = keep(task, "a", 3<<30)
	refused("too large a list", err, api.CodeInvalid)
	refused("another content", send(task, "CONTENT", 7), api.CodeInvalid)
	_, err = c.Content(ctx, task, name)
	refused("a content that is missing", err, api.CodeNotFound)
	refused("the content", send(task, "content", 7), "")
	missing, err = keep(task, "a/b.txt", 7)
	if err != nil || len(missing) > 0 {
		t.Errorf("missing are %v, %v", missing, err)
	}
	answers, err := k.client.Report(ctx, []api.TaskReport{{Task: task, Kind: api.TaskComplete}})
	if err != nil || answers[0].Error != nil {
		t.Fatalf("%+v, %v", answers, err)
	}
	_, err = keep(task, "late", 7)
	refused("after its end", err, api.CodeStale)
}

// rot turns the text of a token into another one.
func rot(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return 'a' + (r-'a'+1)%26
	}
	return r
}
