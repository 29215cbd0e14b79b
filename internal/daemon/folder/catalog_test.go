package folder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/daemon/workflows"
)

// TestFlowTellsItsInput checks that a flow comes with the schema of its input, in the order of its file.
func TestFlowTellsItsInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"some.yaml": "pawl: 1\nname: some\ninput: {type: object, required: [z], properties: {z: {type: string}, " +
			"a: {type: integer, default: 3}}}\nsteps: [{name: only, noop: {}}]\n",
		"none.yaml": "pawl: 1\nname: none\nsteps: [{name: only, noop: {}}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := New(dir, new(workflows.Store), false).Catalog()
	for name, want := range map[string]string{
		"some": `{"type":"object","required":["z"],"properties":{"z":{"type":"string"},` +
			`"a":{"type":"integer","default":3}}}`,
		"none": "",
	} {
		if f, err := c.Flow(t.Context(), name, 0); err != nil || string(f.Input) != want {
			t.Errorf("%s: %s, %v", name, f.Input, err)
		}
	}
}
