package folder

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/daemon/workflows"
)

// TestFolderKnowsWhatChanged checks that a flow is read once, and again when a file that it comes from has changed.
func TestFolderKnowsWhatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := "pawl: 1\nname: parent\nsteps:\n  - {name: only, flow: {name: child}}\n"
	put := func(name, text string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		for _, path := range []string{filepath.Join(dir, name), dir} {
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("parent.yaml", parent, time.Hour)
	put("child.yaml", "pawl: 1\nname: child\nsteps:\n  - {name: only, noop: {}}\n", time.Hour)
	f := New(dir, new(workflows.Store), false)
	find := func() string {
		t.Helper()
		d, err := f.Find(t.Context(), "parent")
		if err != nil {
			t.Fatal(err)
		}
		return d.ID
	}
	known := func() bool {
		_, ok := f.known.find(filepath.Join(dir, "parent.yaml"))
		return ok
	}
	first := find()
	if !known() {
		t.Error("what was read is not known")
	}
	put("child.yaml", "pawl: 1\nname: child\nsteps:\n  - {name: other, noop: {}}\n", 30*time.Minute)
	if known() {
		t.Error("a changed child is not noticed")
	}
	second := find()
	if second == first {
		t.Error("the flow has its old child")
	}
	put("child.yaml", "pawl: 1\nname: child\nsteps:\n  - {name: young, noop: {}}\n", 0)
	if third := find(); third == second || known() {
		t.Error("a file that has just changed is trusted")
	}
	if err := os.Remove(filepath.Join(dir, "parent.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Find(t.Context(), "parent"); err == nil || known() {
		t.Errorf("a removed flow is found: %v", err)
	}
}
