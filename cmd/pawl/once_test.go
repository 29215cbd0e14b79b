package main

import (
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/service"
)

// TestCompilesAFlowOnce checks that the runs of a flow's file and their explanation use one compiled flow.
func TestCompilesAFlowOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "examples", "pages", "flow.yaml")
	a := &app{database: "memory:"}
	c, err := a.load(file, &sources{})
	if err != nil {
		t.Fatal(err)
	}
	req, err := a.startRequest(c, &startFlags{})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := service.Definition(req.Definition)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.start(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	if def, err := m.Node().Compile(stored); def != c.Def || err != nil {
		t.Errorf("the engine compiles the file's flow again: %v", err)
	}
	if w, err := a.readWorkflow(stored); err != nil || w.Definition != c.Def {
		t.Errorf("the service compiles the file's flow again: %v", err)
	}
}
