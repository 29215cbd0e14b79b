package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBundleKeepsWhatIsReached: of the files beside a flow, its children and theirs are stored with it, and no others; where
// an expression makes a name, any may be meant.
func TestBundleKeepsWhatIsReached(t *testing.T) {
	dir := t.TempDir()
	for name, step := range map[string]string{
		"top": "flow: middle", "middle": "flow: bottom", "bottom": "noop: {}", "other": "noop: {}", "any": `flow: "${{ input }}"`,
	} {
		text := "pawl: 1\nname: " + name + "\nsteps:\n  - name: s\n    " + step + "\n"
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{
		"top":    {"bottom.yaml", "middle.yaml"},
		"middle": {"bottom.yaml"},
		"bottom": nil,
		"any":    {"bottom.yaml", "middle.yaml", "other.yaml", "top.yaml"},
	} {
		c, err := new(app).loadBundle(filepath.Join(dir, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range c.bundle.Children {
			got = append(got, filepath.Base(s.File))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s is stored with %v, want %v", name, got, want)
		}
		for range 2 {
			if name == "top" {
				if d, err := c.child("middle"); err != nil || d.Name != "middle" {
					t.Errorf("the child of %s is %q, %v", name, d.Name, err)
				}
			}
		}
	}
}

// TestChildTakesWhatItStarts: with a child flow go those that it can start in its turn, not all that lay beside it; else a
// workflow of a thousand chains would store each a thousand times.
func TestChildTakesWhatItStarts(t *testing.T) {
	b := bundle{Dir: "/somewhere", Dialect: "steep"}
	add := func(name, step string) {
		s := source{File: name + ".yaml", Text: "pawl: 1\nname: " + name + "\nsteps:\n  - name: s\n    " + step + "\n"}
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
	c, err := b.compile()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"sibling": nil, "loop": nil, "middle": {"loop.yaml"},
		"any": {"top.yaml", "sibling.yaml", "bottom.yaml", "middle.yaml", "loop.yaml"},
	} {
		d, err := c.child(name)
		if err != nil {
			t.Fatal(err)
		}
		child, err := readBundle(d)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range child.bundle.Children {
			got = append(got, s.File)
		}
		if !slices.Equal(got, want) || child.doc.Name != name || child.bundle.Dir != b.Dir || child.bundle.Dialect != b.Dialect {
			t.Errorf("%s is stored with %v, want %v: %+v", name, got, want, child.bundle)
		}
	}
	if d, err := c.child("loop"); err != nil {
		t.Error(err)
	} else if loop, err := readBundle(d); err != nil {
		t.Error(err)
	} else if again, err := loop.child("loop"); err != nil || again.ID != d.ID {
		t.Errorf("a flow that starts itself starts %s, not %s: %v", again.ID, d.ID, err)
	}
	if _, err := c.child("nobody"); err == nil || !strings.Contains(err.Error(), "found: any, bottom, loop, middle, sibling, top") {
		t.Errorf("an unknown flow: %v", err)
	}
}
