package folder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/daemon/workflows"
)

// TestNameOfTwoFiles checks that of two files with one flow name the second is told and not started.
func TestNameOfTwoFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		text := "pawl: 1\nname: etl\nsteps: [{name: " + strings.TrimSuffix(name, ".yaml") + ", noop: {}}]\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := New(dir, new(workflows.Store), false)
	all := f.Flows()
	if len(all) != 2 || all[0].Problem != "" || !strings.Contains(all[1].Problem, `the flow "etl" is in `) {
		t.Errorf("two files of one name: %+v", all)
	}
	if d, err := f.Find(t.Context(), "etl"); err != nil || !strings.Contains(d.Source, "name: a,") {
		t.Errorf("a start by the name took %q, %v", d.Source, err)
	}
}
