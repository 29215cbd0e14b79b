package conformance

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/cases"
)

// rowID matches the start of a policy case's name if the case shows a row of the contract.
var rowID = regexp.MustCompile(`^([SVZAT][0-9]+) `)

// rows maps a row's ID to the test that shows it. TestConformance adds the rows that policy cases show.
var rows = map[string]func(t *testing.T){}

// TestConformance runs one subtest for every row.
func TestConformance(t *testing.T) {
	all := make(map[string]func(t *testing.T), len(rows))
	for id, test := range rows {
		all[id] = test
	}
	byRow := policyCases(t)
	for id, list := range byRow {
		own := all[id]
		all[id] = func(t *testing.T) {
			for _, c := range list {
				runCase(t, c)
			}
			if own != nil {
				own(t)
			}
		}
	}
	ids := make([]string, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t.Run(id, all[id])
	}
}

// TestPolicyCases runs every case of every file, also those that show no row.
func TestPolicyCases(t *testing.T) {
	for _, c := range loadCases(t) {
		t.Run(c.Name, func(t *testing.T) { runCase(t, c) })
	}
}

func runCase(t *testing.T, c cases.Case) {
	t.Helper()
	r, err := c.Run()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(r); err != nil {
		t.Error(err)
	}
}

func policyCases(t *testing.T) map[string][]cases.Case {
	out := map[string][]cases.Case{}
	for _, c := range loadCases(t) {
		if m := rowID.FindStringSubmatch(c.Name); m != nil {
			out[m[1]] = append(out[m[1]], c)
		}
	}
	return out
}

func loadCases(t *testing.T) []cases.Case {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	var out []cases.Case
	for _, file := range files {
		list, err := cases.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}
