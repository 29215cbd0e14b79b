package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Sizes that nothing may have more of. What is larger today stands in a table with its size, which may only fall: where
// it has, the test asks for the smaller number, and a test compares the tables with those of the commit before.
const (
	methodLimit = 60 // methods of a type
	filesLimit  = 40 // files of a package, without those of tests
)

// manyMethods are the types with more methods.
var manyMethods = map[string]int{
	"cmd/pawl.app":                      97,
	"flow.parsing":                      77,
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
	"cmd/pawl":        76,
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

// TestTablesOnlyFall compares the tables with those of the commit before: a change that adds methods to a large type,
// or files to a large package, cannot raise its own limit.
func TestTablesOnlyFall(t *testing.T) {
	const path = "internal/house/size_test.go"
	before, err := exec.CommandContext(t.Context(), "git", "-C", top(t), "show", "HEAD~:"+path).Output()
	if err != nil {
		t.Skip("git has no earlier commit here")
	}
	tables := map[string]map[string]int{"manyMethods": manyMethods, "manyFiles": manyFiles}
	for table, was := range tablesIn(t, before) {
		for name, n := range tables[table] {
			if most, had := was[name]; !had || n > most {
				t.Errorf("%s of %s: %d now, %d in the commit before (0: it was not in the table)", table, name, n, most)
			}
		}
	}
}

// tablesIn returns the tables from names to numbers in a file of Go code.
func tablesIn(t *testing.T, text []byte) map[string]map[string]int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		table, ok := v.Values[0].(*ast.CompositeLit)
		if !ok {
			return true
		}
		rows := map[string]int{}
		for _, e := range table.Elts {
			if row, ok := e.(*ast.KeyValueExpr); ok {
				rows[strings.Trim(literal(row.Key), `"`)], _ = strconv.Atoi(literal(row.Value))
			}
		}
		tables[v.Names[0].Name] = rows
		return false
	})
	if len(tables) != 2 {
		t.Fatalf("%d tables in the commit before", len(tables))
	}
	return tables
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok {
		return l.Value
	}
	return ""
}
