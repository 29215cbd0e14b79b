package steep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
)

func example(t testing.TB) *dialect.Conversion {
	t.Helper()
	read := func(name string) Source {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "dialects", "steep", name))
		if err != nil {
			t.Fatal(err)
		}
		return Source{name, text}
	}
	c, err := Convert(Sources{Workflow: read("workflow.yaml"), Services: read("services.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestShow(t *testing.T) {
	c := example(t)
	for _, d := range append([]*flow.Document{c.Flow}, c.Children...) {
		out, err := flow.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(string(out))
		if _, err := flow.Parse("x.yaml", out); err != nil {
			t.Error(err)
		}
	}
}
