package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// script runs a script of the repository that writes into a folder, and returns what it says.
func script(t *testing.T, out, name string, args ...string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("it needs a shell")
	}
	nightly.Only(t, "it builds the command for several systems")
	cmd := exec.Command("bash", append([]string{filepath.Join("..", "..", ".ci", name)}, args...)...)
	cmd.Env = append(os.Environ(), "OUT="+out, "COMPRESSION=none")
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.TrimSpace(string(said))
}

// tool runs a program of the system in a folder.
func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said)
	}
	return string(said)
}

// TestArchive builds the archive for this system: its checksum is right, and the command in it works.
func TestArchive(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	system := runtime.GOOS + "-" + runtime.GOARCH
	script(t, out, "dist", "1.2.3", runtime.GOOS+"/"+runtime.GOARCH)
	tool(t, out, "sha256sum", "--check", "--strict", "SHA256SUMS")
	tool(t, out, "tar", "-xzf", "pawl-1.2.3-"+system+".tar.gz")
	inside := filepath.Join(out, "pawl-1.2.3-"+system)
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "man/pawl-run.1"} {
		if _, err := os.Stat(filepath.Join(inside, name)); err != nil {
			t.Error(err)
		}
	}
	if said := tool(t, inside, "./pawl", "version"); !strings.HasPrefix(said, "pawl 1.2.3 (") {
		t.Errorf("the command says %q", said)
	}
}
