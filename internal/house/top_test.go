package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// How much a newcomer sees before the README: entries of the top folder, and Go files among them. And how large a file
// is.
const (
	entriesAtTop = 62
	goFilesAtTop = 29
	mostBytes    = 300_000 // the largest is the description of the API
)

// TestTopFolder counts what lies at the top. Tests of the root belong in internal/facetest, tools in tools, and a file
// of the root is named after what is inside.
func TestTopFolder(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range known(t) {
		name, _, _ := strings.Cut(path, "/")
		if _, err := os.Lstat(filepath.Join(top(t), name)); err == nil {
			seen[name] = true
		}
	}
	var goFiles []string
	for name := range seen {
		if filepath.Ext(name) == ".go" {
			goFiles = append(goFiles, name)
		}
	}
	slices.Sort(goFiles)
	if len(goFiles) == 0 {
		t.Fatal("git knows no Go file at the top")
	}
	if n := len(seen); n > entriesAtTop {
		t.Errorf("%d entries at the top, at most %d are wanted", n, entriesAtTop)
	}
	if n := len(goFiles); n > goFilesAtTop {
		t.Errorf("%d Go files at the top, at most %d are wanted: %s", n, goFilesAtTop, strings.Join(goFiles, " "))
	}
	t.Logf("%d entries at the top, %d Go files", len(seen), len(goFiles))
}

// known returns the paths of the files that git has, or would take.
func known(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = top(t)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the checkout is not git's: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// TestFileSizes checks that nothing large is committed: a program that was built beside its sources, or a recording.
func TestFileSizes(t *testing.T) {
	for _, path := range known(t) {
		if info, err := os.Lstat(filepath.Join(top(t), path)); err == nil && info.Size() > mostBytes {
			t.Errorf("%s has %d bytes, at most %d are wanted", path, info.Size(), mostBytes)
		}
	}
}
