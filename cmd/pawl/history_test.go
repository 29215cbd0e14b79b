package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/pawltest"
)

// delivery returns a workflow of a program whose second release asks for another step first.
func delivery(release int) *pawl.Workflow[string, string] {
	return pawl.Define("delivery", func(ctx pawl.Context, to string) (string, error) {
		if release == 2 {
			if err := pawl.Do(ctx, "weigh", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
		}
		label, err := pawl.Step(ctx, "label", func(context.Context) (string, error) { return "to " + to, nil })
		if err != nil {
			return "", err
		}
		return label, pawl.Sleep(ctx, "collect", 24*time.Hour)
	})
}

// The variables that the test run of a CI job gets.
const (
	asJob     = "PAWL_TEST_REPLAY" // the release that is to be deployed, and a folder with histories and a database
	jobServer = "PAWL_TEST_SERVER" // the address of a server
)

// TestReplayOfProduction does the work of a CI job before a deploy: the command writes the history of a production
// run, and tests replay it, or all open runs of the production database or of a server, with the code that is to be
// deployed.
func TestReplayOfProduction(t *testing.T) {
	t.Parallel()
	if job := os.Getenv(asJob); job != "" {
		replayAsJob(t, delivery(int(job[0]-'0')), job[1:])
		return
	}
	dir := t.TempDir()
	w := delivery(1)
	e := library(t, filepath.Join(dir, "prod.db"), w)
	r, err := w.Start(t.Context(), e, "d1", "Ulm")
	if err != nil {
		t.Fatal(err)
	}
	untilPhase(t, e, r.ID, "collect", "suspended")
	run := func(args ...string) []byte {
		t.Helper()
		cmd := command(t, dir, append([]string{"run", "history"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("pawl %v: %v", args, err)
		}
		return out
	}
	file := run("d1", "--database", "sqlite:prod.db")
	if own, err := e.History(t.Context(), "d1"); err != nil || !bytes.Equal(own, file) {
		t.Errorf("the program writes another history, %v:\n%s\n%s", err, own, file)
	}
	yaml := run("d1", "-o", "yaml", "--database", "sqlite:prod.db")
	if !bytes.Contains(yaml, []byte("pawlHistory: 1\n")) {
		t.Errorf("as YAML:\n%s", yaml)
	}
	write(t, dir, "d1.json", string(file))
	if out, err := command(t, dir, "run", "history", "delivery-2", "--database",
		"sqlite:prod.db").CombinedOutput(); err == nil || !strings.Contains(string(out), `no run "delivery-2"`) {
		t.Errorf("a run that is not there: %v\n%s", err, out)
	}
	startJobs(t, r.ID, dir, "")

	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	server := serve(t, dir, "sqlite:prod.db")
	through := run("d1", "--server", server)
	if !bytes.Equal(through, file) {
		t.Errorf("through a server the history is another one:\n%s\n%s", through, file)
	}
	res, err := http.Get(server + "/api/v1/runs/d1/history")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(text, file) {
		t.Errorf("the server's API gives another history: %s, %v\n%s", res.Status, err, text)
	}
	startJobs(t, r.ID, dir, server)
}

// replayAsJob runs the test of a CI job.
func replayAsJob(t *testing.T, w pawl.Definition, dir string) {
	history, err := os.ReadFile(filepath.Join(dir, "d1.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("file", func(t *testing.T) { pawltest.Replay(t, w, history) })
	cfg := pawl.Config{Database: "sqlite:" + filepath.Join(dir, "prod.db"), Workflows: []pawl.Definition{w}}
	open := client.Query{Phases: []client.Phase{client.PhaseRunning, client.PhaseWaiting}}
	t.Run("database", func(t *testing.T) {
		if n := pawltest.ReplayDatabase(t, cfg, open); n != 1 {
			t.Errorf("%d runs were replayed", n)
		}
	})
	server := os.Getenv(jobServer)
	if server == "" {
		return
	}
	cfg.Database = ""
	t.Run("server", func(t *testing.T) {
		if n := pawltest.ReplayServer(t, cfg, server, open); n != 1 {
			t.Errorf("%d runs were replayed", n)
		}
	})
}

// startJobs runs the job for the release that made the run, and for the next one.
func startJobs(t *testing.T, run, dir, server string) {
	t.Helper()
	from := []string{"file", "database"}
	if server != "" {
		from = append(from, "server")
	}
	for release, want := range map[string][]string{
		"1": nil,
		"2": {
			"run d1 (" + run, `recorded is step "label"`, `asked for was step "weigh"`, "keep the order of steps",
			"pawl run history " + run,
		},
	} {
		said := "--- PASS: TestReplayOfProduction/"
		if release == "2" {
			said = "--- FAIL: TestReplayOfProduction/"
		}
		for _, f := range from {
			want = append(want, said+f)
		}
		job := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplayOfProduction$", "-test.v")
		job.Env = append(os.Environ(), asJob+"="+release+dir, jobServer+"="+server)
		out, err := job.CombinedOutput()
		if (err == nil) != (release == "1") {
			t.Errorf("release %s: %v\n%s", release, err, out)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				t.Errorf("release %s: %q is not in\n%s", release, w, out)
			}
		}
	}
}

// serve starts pawl dev on a database, until the test ends. It returns the server's address.
func serve(t *testing.T, dir, database string) string {
	t.Helper()
	dev := command(t, dir, "dev", "--listen", "127.0.0.1:0", "--database", database, "-o", "json")
	dev.Stderr = os.Stderr
	out, err := dev.StdoutPipe()
	if err == nil {
		err = dev.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dev.Process.Kill()
		_ = dev.Wait()
	})
	var said struct{ Server string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said.Server
}
