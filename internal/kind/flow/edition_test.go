package flow_test

import (
	"testing"

	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/worker"
)

// TestEdition: a flow that was stored before there were editions is read by the rules of that time, and so are the
// child flows that it starts today. The same text is refused for new runs.
func TestEdition(t *testing.T) {
	older := flowkind.Bundle{
		Flow:     flowkind.Source{File: "a.yaml", Text: text("a", "flow: b")},
		Children: []flowkind.Source{{File: "b.yaml", Text: text("b", `exec: "echo ${{ input.x }}"`)}},
	}
	f, err := flowkind.New(older)
	if err != nil {
		t.Fatal(err)
	}
	child, found, err := f.Child("b")
	if err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	if _, err := flowkind.Read(child); err != nil {
		t.Errorf("a child flow of a stored run: %v", err)
	}
	newer := older
	newer.Edition = flowkind.Edition
	if f, err = flowkind.New(newer); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Child("b"); err == nil {
		t.Error("a new run starts a flow that is refused")
	}
}

// TestAttemptVariables: each variable that a worker sets itself is refused in a flow.
func TestAttemptVariables(t *testing.T) {
	for _, name := range worker.AttemptVariables {
		if _, err := flowkind.Parse("a.yaml", text("a", "exec: {shell: env, env: {"+name+": x}}")); err == nil {
			t.Errorf("%s can be set, and has no effect", name)
		}
	}
}
