//go:build unix

package worker

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/worker/workertest"
)

// TestProgramsAreLookedForAgain checks that a program that was found a moment ago and is gone is looked for in the
// whole PATH.
func TestProgramsAreLookedForAgain(t *testing.T) {
	first, last := t.TempDir(), t.TempDir()
	write := func(dir, says string) string {
		path := filepath.Join(dir, "tool")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+says+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	e := NewExec(ExecConfig{})
	run := func() string {
		task := workertest.Task("exec", string(EncodeJSON(map[string]any{
			"command": []string{"tool"}, "env": map[string]string{"PATH": first + ":" + last},
		})))
		res := e.Execute(context.Background(), &task, workertest.NewSigns())
		if res.Failure != nil {
			return res.Failure.Type
		}
		return workertest.Field(t, res.Output, "stdout")
	}
	path := write(last, "last")
	for range 2 { // looked for, and remembered
		if got := run(); got != `"last\n"` {
			t.Fatalf("it said %s", got)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := run(); got != "not_found" {
		t.Errorf("without the program: %s", got)
	}
	write(first, "first")
	if got := run(); got != `"first\n"` {
		t.Errorf("it said %s", got)
	}
}
