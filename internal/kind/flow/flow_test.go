package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

// TestChildTakesWhatItStarts checks that the bundle of a child flow holds the flows that it can start in its turn,
// not all that lay beside it; otherwise a workflow of a thousand chains would store each a thousand times.
func TestChildTakesWhatItStarts(t *testing.T) {
	b := flowkind.Bundle{Dir: "/somewhere", Dialect: "steep"}
	add := func(name, step string) {
		lines := "pawl: 1\nname: " + name + "\nsteps:\n  - name: s\n    " + step + "\n"
		s := flowkind.Source{File: name + ".yaml", Text: lines}
		if b.Flow.File == "" {
			b.Flow = s
		} else {
			b.Children = append(b.Children, s)
		}
	}
	add("top", "flow: middle")
	add("sibling", "noop: {}")
	add("bottom", "noop: {}")
	add("middle", "flow: loop")
	add("loop", "flow: loop")
	add("any", `flow: "${{ input }}"`)
	c, err := flowkind.New(b)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"sibling": nil, "loop": nil, "middle": {"loop.yaml"},
		"any": {"top.yaml", "sibling.yaml", "bottom.yaml", "middle.yaml", "loop.yaml"},
	} {
		d, _, err := c.Child(name)
		if err != nil {
			t.Fatal(err)
		}
		child, err := flowkind.Read(d)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range child.Bundle.Children {
			got = append(got, s.File)
		}
		if !slices.Equal(got, want) || child.Document.Name != name || child.Bundle.Dir != b.Dir ||
			child.Bundle.Dialect != b.Dialect {
			t.Errorf("%s is stored with %v, want %v: %+v", name, got, want, child.Bundle)
		}
	}
	if d, _, err := c.Child("loop"); err != nil {
		t.Error(err)
	} else if loop, err := flowkind.Read(d); err != nil {
		t.Error(err)
	} else if again, _, err := loop.Child("loop"); err != nil || again.ID != d.ID {
		t.Errorf("a flow that starts itself starts %s, not %s: %v", again.ID, d.ID, err)
	}
	if _, found, err := c.Child("nobody"); found || err != nil {
		t.Errorf("an unknown flow: %v, %v", found, err)
	}
}

// text returns a flow of one step.
func text(name, step string) string {
	return "pawl: 1\nname: " + name + "\nsteps:\n  - name: s\n    " + step + "\n"
}

func stored(t *testing.T, kind, name string, source any) journal.Definition {
	t.Helper()
	b, err := json.Marshal(source)
	if err != nil {
		t.Fatal(err)
	}
	return journal.Definition{ID: flow.ID(b), Kind: kind, Name: name, Source: b}
}

func TestReadRefuses(t *testing.T) {
	changed := stored(t, "flow", "a", map[string]string{"file": "a.yaml", "text": text("a", "noop: {}")})
	changed.Source = []byte(strings.Replace(string(changed.Source), "noop", "exec", 1))
	_, err := flowkind.Read(changed)
	if !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), `flow "a"`) {
		t.Errorf("a changed text: %v", err)
	}
	if _, err := flowkind.Read(stored(t, "go", "a", 1)); err == nil || !strings.Contains(err.Error(), `of kind "go"`) {
		t.Errorf("a function: %v", err)
	}
	for _, version := range []int{0, 2} {
		_, err = flowkind.Read(stored(t, "flow", "a", map[string]any{
			"version": version, "flow": map[string]string{"file": "a.yaml", "text": text("a", "noop: {}")},
		}))
		want := fmt.Sprintf(`flow "a" is stored in form %d; this version of Pawl knows form 1: use`, version)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("form %d: %v", version, err)
		}
	}
	_, err = flowkind.Read(stored(t, "flow", "a", 1))
	if err == nil || !strings.Contains(err.Error(), `the stored text of flow "a"`) {
		t.Errorf("a number: %v", err)
	}
}

// TestChildren checks that a child is one of the bundle's flows, or else a workflow that the program has registered by
// that name.
func TestChildren(t *testing.T) {
	registered := func(name string) (journal.Definition, error) {
		if name != "function" {
			return journal.Definition{}, errors.New("it is not registered here")
		}
		return journal.Definition{Kind: journal.KindGo, Name: name}, nil
	}
	b := flowkind.Bundle{
		Dir: "/work", Flow: flowkind.Source{File: "top.yaml", Text: text("top", `flow: "${{ input }}"`)},
		Children: []flowkind.Source{
			{File: "own.yaml", Text: text("own", "noop: {}")},
			{File: "broken.yaml", Text: "pawl: 1\nname: broken\nsteps: 7\n"},
		},
	}
	d, err := b.Definition("top")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program    bool
		name, want string
	}{
		{false, "own", "flow"},
		{true, "own", "flow"},
		{true, "function", "go"},
		{false, "function", "no file beside top.yaml holds a flow of that name; found: own, top"},
		{
			true, "nobody",
			"no file beside top.yaml holds a flow of that name; found: own, top; it is not registered here",
		},
		{true, "broken", "broken.yaml:3:8: "},
	} {
		kinds := flowkind.Plugin().Kinds(memory.New(), nil)
		if c.program {
			kinds = flowkind.Plugin().Kinds(memory.New(), registered)
		}
		if _, err := kinds[d.Kind].Compile(d); err != nil {
			t.Fatal(err)
		}
		child, err := kinds[d.Kind].Child(d.ID, []byte(`{"name":"`+c.name+`"}`))
		got := child.Definition.Kind
		if err != nil {
			got = strings.TrimPrefix(err.Error(), fmt.Sprintf("there is no workflow %q: ", c.name))
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s, in a program: %t: %s, want %s", c.name, c.program, got, c.want)
		}
	}
}

// TestNeedsProgram checks that a flow that a program defined, and that starts what is registered there, stands still
// elsewhere.
func TestNeedsProgram(t *testing.T) {
	registered := func(string) (journal.Definition, error) { return journal.Definition{}, nil }
	for step, want := range map[string]string{
		"noop: {}":             "",
		"flow: a":              "", // itself
		"flow: b":              `workflow "a" is a Go program's and starts "b", which is registered there`,
		`flow: "${{ input }}"`: `workflow "a" is a Go program's and starts others whose names are worked out`,
	} {
		doc, err := flow.Parse("a.yaml", []byte(text("a", step)))
		if err != nil {
			t.Fatal(err)
		}
		f, err := flowkind.Of(doc)
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.Bundle.Definition("a")
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range []bool{true, false} {
			kinds := flowkind.Plugin().Kinds(memory.New(), nil)
			if program {
				kinds = flowkind.Plugin().Kinds(memory.New(), registered)
			}
			def, err := kinds[d.Kind].Compile(d)
			if err != nil || def.Elsewhere != (want != "" && !program) {
				t.Errorf("%s, in a program: %t: elsewhere %t, %v", step, program, def.Elsewhere, err)
			}
		}
		err = f.NeedsProgram()
		if (err != nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v; want %q", step, err, want)
		}
	}
}

// TestFlowsCompileOnce checks that all callers that share Flows get the same flow, which was compiled once.
func TestFlowsCompileOnce(t *testing.T) {
	d, err := flowkind.Bundle{Flow: flowkind.Source{File: "a.yaml", Text: text("a", "noop: {}")}}.Definition("a")
	if err != nil {
		t.Fatal(err)
	}
	var flows flowkind.Flows
	f, err := flows.Get(d)
	if err != nil {
		t.Fatal(err)
	}
	kinds := flows.Plugin().Kinds(memory.New(), nil)
	if def, err := kinds[d.Kind].Compile(d); def != f.Definition || err != nil {
		t.Errorf("the engine compiles the flow again: %v", err)
	}
	if again, err := flows.Get(d); again != f || err != nil {
		t.Errorf("the next one gets another flow: %v", err)
	}
	if def, err := flowkind.Plugin().Kinds(memory.New(), nil)[d.Kind].Compile(d); def == f.Definition || err != nil {
		t.Errorf("an engine with flows of its own has the same one: %v", err)
	}
}
