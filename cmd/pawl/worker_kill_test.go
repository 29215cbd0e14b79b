package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// killing is a server and a worker in processes of their own, one of which is killed now and then.
type killing struct {
	*testing.T
	dir    string
	client *httpapi.Client
	url    string
	server *exec.Cmd
	worker *exec.Cmd
	begun  chan struct{} // closed when the worker executes tasks
}

const killedFlow = `pawl: 1
name: work
steps:
  - name: first
    task: {queue: q, type: Work, input: {n: "${{ input.n }}"}}
    timeout: {startToClose: 4s}
    retry: {maxAttempts: 50, initialInterval: 10ms, backoffCoefficient: 1}
  - name: second
    needs: [first]
    task: {queue: q, type: Work, input: {n: "${{ input.n }}"}}
    timeout: {startToClose: 4s}
    retry: {maxAttempts: 50, initialInterval: 10ms, backoffCoefficient: 1}
`

// serve starts the server. The first one chooses the port.
func (k *killing) serve() {
	k.Helper()
	listen := "127.0.0.1:0"
	if k.url != "" {
		listen = strings.TrimPrefix(k.url, "http://")
	}
	k.server = command(k.T, k.dir, "dev", "flows", "--listen", listen, "--database", "sqlite:k.db")
	out, err := k.server.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	k.server.Stderr = k.Output()
	if err := k.server.Start(); err != nil {
		k.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "serving "); ok {
			k.url, _, _ = strings.Cut(rest, " ")
			break
		}
	}
	go func() {
		for lines.Scan() { // nobody reads the rest
		}
	}()
	if k.client, err = httpapi.New(k.url); err != nil {
		k.Fatal(err)
	}
}

// work starts the worker. Its command notes each of its ends.
func (k *killing) work() {
	k.Helper()
	k.worker = command(k.T, k.dir, "worker", "--server", k.url, "--queue", "q", "--slots", "8", "--exec",
		`sleep 0.05; echo "$PAWL_IDEMPOTENCY_KEY" >> effects`)
	out, err := k.worker.StdoutPipe()
	if err == nil {
		err = k.worker.Start()
	}
	if err != nil {
		k.Fatal(err)
	}
	begun := make(chan struct{})
	k.begun = begun
	go func() {
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			close(begun)
		}
		for lines.Scan() { // nobody reads the rest
		}
	}()
}

func (k *killing) kill(cmd *exec.Cmd) {
	k.Helper()
	if err := cmd.Process.Kill(); err != nil {
		k.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// effects counts how often each step's work was done.
func (k *killing) effects() map[string]int {
	k.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, "effects"))
	if err != nil {
		k.Fatal(err)
	}
	done := map[string]int{}
	for key := range strings.FieldsSeq(string(text)) {
		done[key]++
	}
	return done
}

// TestKillServerAndWorker kills the server and the worker in turn while runs go on. No run is lost, and no work is done
// again that was reported: a step has as many effects as attempts that its worker could finish.
func TestKillServerAndWorker(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "it kills processes for a while")
	for name, c := range map[string]struct{ server, worker bool }{
		"server": {server: true}, "worker": {worker: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &killing{T: t, dir: t.TempDir()}
			if err := os.Mkdir(filepath.Join(k.dir, "flows"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, k.dir, "flows/work.yaml", killedFlow)
			k.serve()
			k.work()
			ids := k.start(30)
			for range 4 {
				pause(t, time.Duration(100+rand.IntN(300))*time.Millisecond)
				if c.server {
					k.kill(k.server)
				}
				if c.worker {
					k.kill(k.worker)
				}
				if c.server {
					k.serve()
				}
				if c.worker {
					k.work()
				}
			}
			k.check(ids, c.worker)
			<-k.begun // earlier, a signal ends it as it ends every process
			for _, cmd := range []*exec.Cmd{k.worker, k.server} {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("on SIGTERM: %v", err)
				}
			}
		})
	}
}

// start starts runs.
func (k *killing) start(n int) (ids []string) {
	k.Helper()
	for i := range n {
		body := strings.NewReader(fmt.Sprintf(`{"workflow":"work","input":{"n":%d}}`, i))
		req, err := http.NewRequestWithContext(k.Context(), http.MethodPost, k.url+"/api/v1/runs", body)
		if err != nil {
			k.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			k.Fatal(err)
		}
		var st api.Started
		err = json.NewDecoder(res.Body).Decode(&st)
		if closeErr := res.Body.Close(); err != nil || closeErr != nil || st.Run == "" {
			k.Fatal(err, closeErr, res.Status)
		}
		ids = append(ids, st.Run)
	}
	return ids
}

// check waits until all runs have ended, and compares their attempts with what was done.
func (k *killing) check(ids []string, workerKilled bool) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 2*time.Minute)
	defer cancel()
	steps, attempts, late := 0, 0, map[string]int{} // attempts whose limit expired, by step (a slow machine)
	for _, id := range ids {
		out, err := k.client.Wait(ctx, id)
		if err != nil || out.Phase != api.RunSucceeded {
			k.Fatalf("run %s: %+v %v", id, out, err)
		}
		r, err := k.client.Run(ctx, id)
		if err != nil {
			k.Fatal(err)
		}
		for i, s := range r.Steps {
			steps++
			attempts += len(s.Attempts)
			for _, a := range s.Attempts {
				if a.Outcome == "timeout" {
					late[fmt.Sprintf("%s-%d", id, i)]++
				}
			}
			if last := s.Attempts[len(s.Attempts)-1]; last.Outcome != "succeeded" {
				k.Errorf("step %s of run %s succeeded, its last attempt: %+v", s.Step, id, last)
			}
		}
	}
	done, total := k.effects(), 0
	for key, n := range done {
		if total += n; n > 1+late[key] && !workerKilled {
			k.Errorf("%s was done %d times, and %d attempts were late", key, n, late[key])
		}
	}
	if len(done) != steps || total > attempts {
		k.Errorf("%d steps, of which %d were done, %d times in %d attempts", steps, len(done), total, attempts)
	}
	k.Logf("%d steps, %d attempts, done %d times", steps, attempts, total)
}

// pause waits for a time. Everything that happens meanwhile happens in other processes, and killing one at any time is
// the point.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}
