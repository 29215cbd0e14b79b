// Package pawlbin builds the programs that tests start as processes, once for all tests: into the folder bin of the
// module, which git ignores. The next test finds them there and waits for a check of their sources, not for a linker.
package pawlbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// Build builds the programs of packages, such as "./cmd/pawl", from the module's folder, and returns the folder in
// which the programs are. They are built without C, as the released programs are.
func Build(t testing.TB, packages ...string) string {
	t.Helper()
	return BuildIn(t, ".", packages...)
}

// BuildIn works as Build, in the folder of another module, such as "tools/issuer", whose requirements are not in
// go.mod.
func BuildIn(t testing.TB, folder string, packages ...string) string {
	t.Helper()
	return build(t, folder, "", packages)
}

// BuildSmall works as Build, with -tags small, into a folder of its own.
func BuildSmall(t testing.TB, packages ...string) string {
	t.Helper()
	return build(t, ".", "small", packages)
}

func build(t testing.TB, folder, tags string, packages []string) string {
	t.Helper()
	top, err := module()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(top, "bin", tags)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	// Another process may run a program while this one builds it: go build does not touch up-to-date files.
	unlock, err := lockedfile.MutexAt(filepath.Join(bin, ".lock")).Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	// No commit changes them: -buildvcs=false.
	args := []string{"build", "-buildvcs=false", "-tags", tags, "-o", bin + string(filepath.Separator)}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir, cmd.Env = filepath.Join(top, filepath.FromSlash(folder)), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", packages, err, out)
	}
	return bin
}

// module returns the folder of the module that is tested: the first one above that holds go.mod.
func module() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
		dir = above
	}
	return "", err
}
