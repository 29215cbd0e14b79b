package vet_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/pawl-dev/pawl/internal/vet"
)

// TestAnalyzer compares the reports with the "want" comments in testdata, which uses the real package pawl. What is
// beside them in each package is right and must not be reported.
func TestAnalyzer(t *testing.T) {
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, name := range []string{
		"clock", "random", "io", "parallel", "maporder", "context", "capture", "ignore", "fine", "dropped", "texts",
		"values",
	} {
		packages = append(packages, "./internal/vet/testdata/"+name)
	}
	reports := 0
	for _, result := range analysistest.Run(t, top, vet.Analyzer, packages...) {
		reports += len(result.Action.Diagnostics)
	}
	if reports == 0 {
		t.Error("nothing is reported: the packages were not checked")
	}
}
