package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// unzip writes a stored database file to a directory of the test's own.
func unzip(t *testing.T, from, to string) {
	t.Helper()
	packed, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	src, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFlowFile opens a database that pawl 0.1.0 wrote before it was killed with -9: one step had succeeded, a forEach
// too, one step backed off, one slept and one waited for an event. The file is sound, and its run goes on from there.
func TestFlowFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unzip(t, filepath.Join("testdata", "0.1.0", "flow.db.gz"), filepath.Join(dir, "old.db"))
	pawl := func(args ...string) []byte {
		t.Helper()
		cmd := command(t, dir, append(args, "--database", "sqlite:old.db")...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("pawl %v: %v\n%s", args, err, out)
		}
		return out
	}
	pawl("doctor")
	pawl("event", "send", "of-old", "go", "--data", `{"by": "eve"}`)
	pawl("resume", "of-old", "--quiet")
	pawl("doctor")

	var got struct {
		Phase  string `json:"phase"`
		Output any    `json:"output"`
		Steps  []struct {
			Step     string `json:"step"`
			Attempts []struct {
				StartedAt string `json:"startedAt"`
			} `json:"attempts"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(pawl("run", "show", "of-old", "-o", "json"), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"said": "hello ada, eve", "doubled": []any{2.0, 4.0, 6.0}, "again": "failed"}
	if got.Phase != "succeeded" || !reflect.DeepEqual(got.Output, want) {
		t.Errorf("the run is %s with %v, want %v", got.Phase, got.Output, want)
	}
	attempts := map[string]int{}
	for _, s := range got.Steps {
		attempts[s.Step] = len(s.Attempts)
	}
	if attempts["first"] != 1 || attempts["again"] != 2 || attempts["each[1]"] != 1 || attempts["onExit"] != 1 {
		t.Errorf("attempts of each step: %v", attempts)
	}
}
