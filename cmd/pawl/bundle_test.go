package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestBundleKeepsWhatIsReached checks that a flow is stored with its children and theirs, and with no other file
// beside it; where an expression makes a name, any file may be meant.
func TestBundleKeepsWhatIsReached(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, step := range map[string]string{
		"top": "flow: middle", "middle": "flow: bottom", "bottom": "noop: {}", "other": "noop: {}",
		"any": `flow: "${{ input }}"`,
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
		for _, s := range c.Bundle.Children {
			got = append(got, filepath.Base(s.File))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s is stored with %v, want %v", name, got, want)
		}
		for range 2 {
			if name == "top" {
				if d, _, err := c.Flow.Child("middle"); err != nil || d.Name != "middle" {
					t.Errorf("the child of %s is %q, %v", name, d.Name, err)
				}
			}
		}
	}
}
