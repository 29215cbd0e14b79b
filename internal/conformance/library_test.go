package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/aether"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/dialect/stevora"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/pawlflow"
)

// TestDialectsInGo runs the examples of the dialects in a Go program: what Convert returns are its workflows.
func TestDialectsInGo(t *testing.T) {
	examples, err := filepath.Abs("../../examples/dialects")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(examples, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var steepSources steep.Sources
	steepSources.Workflow = steep.Source{Name: "workflow.yaml", Text: read("steep/workflow.yaml")}
	steepSources.Services = []steep.Source{{Name: "services.yaml", Text: read("steep/services.yaml")}}
	for name, convert := range map[string]func() (*dialect.Conversion, error){
		"steep": func() (*dialect.Conversion, error) { return steep.Convert(steepSources) },
		"aether": func() (*dialect.Conversion, error) {
			return aether.Convert(aether.Source{Name: "flow.json", Text: read("aether/flow.json")},
				aether.Source{Name: "handlers.yaml", Text: read("aether/handlers.yaml")})
		},
		"stevora": func() (*dialect.Conversion, error) {
			return stevora.Convert(stevora.Source{Name: "definition.json", Text: read("stevora/definition.json")},
				stevora.Source{Name: "handlers.yaml", Text: read("stevora/handlers.yaml")})
		},
		"temporal": func() (*dialect.Conversion, error) {
			doc, err := flow.Parse("shop.yaml", read("temporal/shop.yaml"), dialect.Forms()...)
			return &dialect.Conversion{Flow: doc}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, script := range []string{"split.sh", "count.sh", "sum.sh"} {
				if err := os.Symlink(filepath.Join(examples, "steep", script), script); err != nil {
					t.Fatal(err)
				}
			}
			c, err := convert()
			if err != nil {
				t.Fatal(err)
			}
			w := pawlflow.Define[map[string]any, json.RawMessage](c.Flow)
			known := []pawl.Definition{w}
			for _, child := range c.Children {
				known = append(known, pawlflow.Define[any, any](child))
			}
			e, err := pawl.Open(t.Context(), pawl.Config{Database: "sqlite:go.db", Workflows: known})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			r, err := w.Start(t.Context(), e, name, map[string]any{})
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Result(t.Context())
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
