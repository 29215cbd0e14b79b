package cases

import (
	"path/filepath"
	"testing"
)

// TestCases runs the policy cases that came with the contract.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("../../conformance/testdata/cases/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	for _, file := range files {
		list, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			t.Run(c.Name, func(t *testing.T) {
				r, err := c.Run()
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Check(r); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
