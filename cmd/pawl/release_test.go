package main

import (
	"archive/zip"
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

// TestArchiveOfWindows builds the archive for Windows twice: a .zip, since a new Windows unpacks nothing else without a
// program, and the same bytes each time.
func TestArchiveOfWindows(t *testing.T) {
	nightly.Only(t, "it builds the command for another system")
	t.Parallel()
	var sums []string
	for range 2 {
		out := t.TempDir()
		script(t, out, "dist", "1.2.3", "windows/amd64")
		tool(t, out, "sha256sum", "--check", "--strict", "SHA256SUMS")
		sums = append(sums, tool(t, out, "cat", "SHA256SUMS"))
		archive, err := zip.OpenReader(filepath.Join(out, "pawl-1.2.3-windows-amd64.zip"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"pawl.exe", "LICENSE", "man/pawl-run.1"} {
			if _, err := archive.Open("pawl-1.2.3-windows-amd64/" + name); err != nil {
				t.Error(err)
			}
		}
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("the same source gives %s and %s", sums[0], sums[1])
	}
}
