package house

import (
	"go/ast"
	"testing"
)

// Sizes that nothing may have more of. What is larger today stands in a table with its size, which may only fall: where
// it has, the test asks for the smaller number.
const (
	methodLimit = 60 // methods of a type
	filesLimit  = 40 // files of a package, without those of tests
)

// manyMethods are the types with more methods.
var manyMethods = map[string]int{
	"cmd/pawl.app":                      98,
	"flow.parsing":                      85,
	"internal/api/httpapi.Client":       75, // one for each endpoint
	"internal/body.Session":             84,
	"internal/core.Run":                 116,
	"internal/core.machine":             126,
	"internal/journal/postgres.storage": 84,
	"internal/server.Server":            84,
	"internal/sim.checker":              70,
	"internal/sim.runModel":             77,
}

// manyFiles are the packages with more files.
var manyFiles = map[string]int{
	"cmd/pawl":        77,
	"flow":            45,
	"internal/core":   46,
	"internal/engine": 45,
	"internal/sim":    51,
}

func TestMethodsOfAType(t *testing.T) {
	count := map[string]int{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil && !s.isTest() {
				count[s.folder()+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	ratchet(t, "methods", count, methodLimit, manyMethods)
}

func TestFilesOfAPackage(t *testing.T) {
	count := map[string]int{}
	for _, s := range sources(t) {
		if !s.isTest() {
			count[s.folder()]++
		}
	}
	ratchet(t, "files", count, filesLimit, manyFiles)
}

// ratchet compares counts with a limit, and with the numbers of those that have more.
func ratchet(t *testing.T, of string, count map[string]int, limit int, more map[string]int) {
	t.Helper()
	for name, n := range count {
		if most := max(limit, more[name]); n > most {
			t.Errorf("%s has %d %s, at most %d are wanted", name, n, of, most)
		}
	}
	for name, most := range more {
		switch n := count[name]; {
		case n <= limit:
			t.Errorf("%s has %d %s, no more than others may: take it out of the table", name, n, of)
		case n < most:
			t.Errorf("%s has %d %s: write that in the table instead of %d", name, n, of, most)
		}
	}
}
