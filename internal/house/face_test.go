package house

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exportedLimit is how many names a package shows to users. What is exported is a promise; what is not needed outside
// stays inside.
const exportedLimit = 20

// exported are the packages that show more, and how many names they do.
var exported = map[string]int{
	".":      130,
	"client": 58,
	"flow":   54,
	"policy": 53,
}

// programNames is how many names are in the packages that Go programs import. The others that may be imported read
// flows and other systems' documents.
const programNames = 280

var programPackages = []string{
	".", "client", "policy", "outbox", "pawltest", "pawlhttp", "pawlotel", "pawlcluster", "pawlflow",
}

// TestExportedNames counts what users can import: names at package level, with which a reader of a page begins. What an
// exported type has more of is found at the type; limits of methods and fields are in other tests.
func TestExportedNames(t *testing.T) {
	count := map[string]int{}
	for _, s := range sources(t) {
		dir := s.folder()
		if s.isTest() || s.file.Name.Name == "main" || slices.Contains(strings.Split(dir, "/"), "internal") {
			continue
		}
		count[dir] += len(exportedNames(s.file))
	}
	ratchet(t, "exported names", count, exportedLimit, exported)
	all := 0
	for _, dir := range programPackages {
		if count[dir] == 0 {
			t.Errorf("package %s exports nothing", dir)
		}
		all += count[dir]
	}
	if all > programNames {
		t.Errorf("%d names in the packages that programs import, at most %d are wanted", all, programNames)
	}
}

func exportedNames(f *ast.File) []string {
	var names []string
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			names = append(names, exportedSpecs(d)...)
		}
	}
	return names
}

func exportedSpecs(d *ast.GenDecl) []string {
	var names []string
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				names = append(names, s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	default:
		return ""
	}
}

// partitionFields bounds engine.Partition, so that it does not become the object that holds everything.
const partitionFields = 15

func TestPartitionIsMadeOfParts(t *testing.T) {
	found := false
	for _, s := range sources(t) {
		if s.isTest() || filepath.ToSlash(filepath.Dir(s.path)) != "internal/engine" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Partition" {
				return true
			}
			fields := 0
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				fields += max(1, len(f.Names))
			}
			found = true
			if fields > partitionFields {
				t.Errorf("%s:%d: Partition has %d fields, at most %d are wanted", s.path,
					s.line(spec.Pos()), fields, partitionFields)
			}
			return false
		})
	}
	if !found {
		t.Error("internal/engine has no type Partition")
	}
}
