package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(pawlbin.Build(t, "./cmd/pawlvet"), "pawlvet")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	return bin
}

// top returns the folder of this module.
func top(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// output runs a program in a folder and returns what it wrote, and whether it succeeded.
func output(t *testing.T, dir, name string, args ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// TestOwnWorkflows checks that nothing is reported about the examples and the tests of this module, whose bodies are
// right, or say why they are not.
func TestOwnWorkflows(t *testing.T) {
	nightly.Only(t, "it vets the examples, as make vet does")
	out, ok := output(t, top(t), "go", "vet", "-vettool="+build(t),
		".", "./examples/...", "./pawltest")
	if !ok {
		t.Errorf("a report that is wrong is a fault of internal/vet. A body that does such a thing on purpose says so "+
			"with a comment on that line: //pawlvet:ignore and the reason.\n%s", out)
	}
}

const wrong = `package main

import (
	"time"

	"github.com/pawl-dev/pawl"
)

var w = pawl.Define("w", func(ctx pawl.Context, in int) (time.Time, error) {
	return time.Now(), nil
})

func main() { _ = w }
`

// TestGoVet uses the program as another module's people do.
func TestGoVet(t *testing.T) {
	nightly.Only(t, "it builds the checker and another module, and checks that")
	bin, dir := build(t), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(top(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const module = "github.com/pawl-dev/pawl"
	write("go.sum", read("go.sum"))
	write("go.mod", strings.Replace(read("go.mod"), "module "+module, "module example.com/shop", 1)+
		"\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+filepath.ToSlash(top(t))+"\n")

	want := "main.go:10:9: time.Now in a workflow's body gives another instant when the body is called again: use " +
		"pawl.Now(ctx)"
	for _, command := range [][]string{
		{"go", "vet", "-vettool=" + bin, "./..."},
		{bin, "./..."},
	} {
		write("main.go", wrong)
		if out, ok := output(t, dir, command[0], command[1:]...); ok || !strings.Contains(out, want) {
			t.Errorf("%s: succeeded %t, want the report %q\n%s", command, ok, want, out)
		}
		write("main.go", strings.Replace(wrong, "time.Now()", "pawl.Now(ctx)", 1))
		if out, ok := output(t, dir, command[0], command[1:]...); !ok {
			t.Errorf("%s does not accept what it has asked for:\n%s", command, out)
		}
	}
	if out, ok := output(t, dir, bin, "help", "pawlvet"); !ok || !strings.Contains(out, "maporder") {
		t.Errorf("help does not list the checks:\n%s", out)
	}
}
