package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// script runs a script of the repository that writes into a folder, and returns what it says.
func script(t *testing.T, out, name string, args ...string) string {
	t.Helper()
	if runtime.GOOS == "windows" || testing.Short() {
		t.Skip("it builds the command, with a shell")
	}
	cmd := exec.Command("bash", append([]string{filepath.Join("..", "..", ".ci", name)}, args...)...)
	cmd.Env = append(os.Environ(), "OUT="+out, "DPKG_DEB_COMPRESSOR_TYPE=none")
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

// TestDebianPackage installs the package below a folder, starts what it installed, installs a newer one over it, and
// removes it: nothing is left of it but what users made.
func TestDebianPackage(t *testing.T) {
	for _, name := range []string{"dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	out, root := t.TempDir(), t.TempDir()
	older, newer := script(t, out, "deb", "1.2.3"), script(t, out, "deb", "1.2.4")
	for _, dir := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "var", "lib", "dpkg"), "status", "")
	dpkg := func(args ...string) string {
		t.Helper()
		own := []string{"--root=" + root, "--force-not-root", "--log=/dev/null"}
		return tool(t, root, "dpkg", append(own, args...)...)
	}
	files := []string{
		"usr/bin/pawl", "usr/lib/systemd/system/pawl.service", "usr/share/man/man1/pawl-run.1.gz",
		"usr/share/bash-completion/completions/pawl", "usr/share/doc/pawl/copyright",
	}
	dpkg("--install", older)
	for _, name := range files {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	wantServes(t, filepath.Join(root, "usr", "bin", "pawl"))
	dpkg("--install", newer)
	if said := dpkg("--status", "pawl"); !strings.Contains(said, "Version: 1.2.4") {
		t.Errorf("after the second one: %s", said)
	}
	dpkg("--purge", "pawl")
	for _, name := range files {
		if _, err := os.Stat(filepath.Join(root, name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// wantServes starts a server of a command and asks it whether it is ready.
func wantServes(t *testing.T, program string) {
	t.Helper()
	cmd := command(t, t.TempDir(), "dev", "--listen", "127.0.0.1:0")
	cmd.Path = program
	r, err := http.Get(servedBy(t, cmd) + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("the server is not ready: %s", r.Status)
	}
}
