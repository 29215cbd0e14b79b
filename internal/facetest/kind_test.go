package facetest

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite"
)

// TestFlowsAreSetAside checks that a program that does not link package pawlflow leaves flow runs as they are, and says
// what to import.
func TestFlowsAreSetAside(t *testing.T) {
	packed, err := os.Open("../../cmd/pawl/testdata/0.1.0/program.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	src, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.db")
	must(t, os.WriteFile(path, text, 0o600))
	w := pawl.Define("w", func(ctx pawl.Context, in string) (string, error) {
		return pawl.Step(ctx, "s", func(context.Context) (string, error) { return in, nil })
	})
	e, err := pawl.Open(t.Context(), pawl.Config{
		Database: "sqlite:" + path, Workflows: []pawl.Definition{w},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(t, e, w, "goes on"); got != "goes on" || err != nil {
		t.Errorf("a function beside them: %q, %v", got, err)
	}
	for _, id := range []string{"old-greet", "old-asking"} {
		err := pawl.Event[any]("go").Send(t.Context(), e, id, nil)
		if err == nil || !strings.Contains(err.Error(), `import _ "github.com/pawl-dev/pawl/pawlflow"`) {
			t.Errorf("%s takes an event: %v", id, err)
		}
	}
	must(t, e.Close())
}
