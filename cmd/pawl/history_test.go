package main

import (
	"bytes"
	"context"
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

// delivery is a workflow of a program, whose second release asks for another step first.
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

// TestReplayOfProduction is what a CI job does before a deploy: the command writes the history of a production run, and
// tests replay it, or all open runs of the production database, with the code that is to be deployed.
func TestReplayOfProduction(t *testing.T) {
	const asJob = "PAWL_TEST_REPLAY" // where set, this is the job's own test run: the release and the folder
	if job := os.Getenv(asJob); job != "" {
		w := delivery(int(job[0] - '0'))
		history, err := os.ReadFile(filepath.Join(job[1:], "d1.json"))
		if err != nil {
			t.Fatal(err)
		}
		t.Run("file", func(t *testing.T) { pawltest.Replay(t, w, history) })
		t.Run("database", func(t *testing.T) {
			cfg := pawl.Config{
				Database:  "sqlite:" + filepath.Join(job[1:], "prod.db"),
				Workflows: []pawl.Definition{w},
			}
			open := client.Query{Phases: []client.Phase{client.PhaseRunning, client.PhaseWaiting}}
			if n := pawltest.ReplayDatabase(t, cfg, open); n != 1 {
				t.Errorf("%d runs were replayed", n)
			}
		})
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
		cmd := command(t, dir, append(args, "--database", "sqlite:prod.db")...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("pawl %v: %v", args, err)
		}
		return out
	}
	file := run("run", "history", "d1")
	if own, err := e.History(t.Context(), "d1"); err != nil || !bytes.Equal(own, file) {
		t.Errorf("the program writes another history, %v:\n%s\n%s", err, own, file)
	}
	if out := run("run", "history", "d1", "-o", "yaml"); !bytes.Contains(out, []byte("pawlHistory: 1\n")) {
		t.Errorf("as YAML:\n%s", out)
	}
	write(t, dir, "d1.json", string(file))
	if out, err := command(t, dir, "run", "history", "delivery-2", "--database",
		"sqlite:prod.db").CombinedOutput(); err == nil || !strings.Contains(string(out), `no run "delivery-2"`) {
		t.Errorf("a run that is not there: %v\n%s", err, out)
	}

	for _, c := range []struct {
		release string
		want    []string
	}{
		{"1", []string{"--- PASS: TestReplayOfProduction/file", "--- PASS: TestReplayOfProduction/database"}},
		{"2", []string{
			"--- FAIL: TestReplayOfProduction/file", "--- FAIL: TestReplayOfProduction/database", "run d1 (" + r.ID,
			`recorded is step "label"`, `asked for was step "weigh"`, "keep the order of steps",
			"pawl run history " + r.ID,
		}},
	} {
		job := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplayOfProduction$", "-test.v")
		job.Env = append(os.Environ(), asJob+"="+c.release+dir)
		out, err := job.CombinedOutput()
		if (err == nil) != (c.release == "1") {
			t.Errorf("release %s: %v\n%s", c.release, err, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("release %s: %q is not in\n%s", c.release, want, out)
			}
		}
	}
}
