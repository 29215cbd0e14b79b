package pawlflow_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawlflow"
)

// TestFlowArtifacts checks that steps of flows keep files in a program, too: beside its file, or in a folder of its
// own.
func TestFlowArtifacts(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"", filepath.Join(t.TempDir(), "kept")} {
		dir := t.TempDir()
		file := filepath.Join(dir, "shop.db")
		w := pawlflow.Define[any, string](parsed(t, "build", `
defaults: {exec: {dir: `+dir+`}}
steps:
  - {name: make, exec: {shell: "echo made > app", artifacts: app}}
  - {name: lose, needs: make, exec: rm app}
  - {name: use, needs: lose, exec: {shell: cat app, artifactsFrom: [make]}}
output: ${{ trim(steps.use.output.stdout) }}
`))
		e, err := pawl.Open(t.Context(), pawl.Config{
			Database: "sqlite:" + file, Workflows: []pawl.Definition{w}, Artifacts: folder,
		})
		if err != nil {
			t.Fatal(err)
		}
		run, err := w.Start(t.Context(), e, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(t.Context()); got != "made" || err != nil {
			t.Errorf("folder %q: %q, %v", folder, got, err)
		}
		if folder == "" {
			folder = file + ".artifacts"
		}
		if _, err := os.Stat(filepath.Join(folder, "runs")); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
