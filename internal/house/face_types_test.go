package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// insideOnly are the rooms whose types users never see: no page describes them, and they may change any day.
var insideOnly = []string{"api", "body", "core", "engine", "node", "service", "worker"}

// showsInside are the public packages whose declarations may show such types, and why. Other rooms of this module call
// those declarations; for programs that use Pawl the root has types of its own. Config.Journal needs no exception: its
// type is internal/journal's, and a program gets its values from the packages below journal.
var showsInside = map[string]string{
	"flow":                          "it compiles documents to what the core decides by; programs use package pawlflow",
	"dialect/aether":                "the command says by it how a run is doing in that system's words",
	"dialect/steep":                 "the command says by it how a run is doing in that system's words",
	"dialect/stevora":               "the command says by it how a run is doing in that system's words",
	"dialect/temporal/temporalform": "the command says by it how a run is doing in that system's words",
	"dialect/zart/zartform":         "the command says by it how a run is doing in that system's words",
}

// TestFaceTypes finds exported declarations of packages that users can import which show a type of the inside.
func TestFaceTypes(t *testing.T) {
	needed := map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		if s.isTest() || s.file.Name.Name == "main" || slices.Contains(strings.Split(dir, "/"), "internal") {
			continue
		}
		inside := s.inside()
		for _, shown := range exportedTypes(s.file) {
			ast.Inspect(shown, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := selector.X.(*ast.Ident)
				if !ok || !inside[x.Name] {
					return true
				}
				if needed[dir] = true; showsInside[dir] == "" {
					t.Errorf("%s:%d: users see %s.%s, which go doc does not show them: declare a type here",
						s.path, s.line(n.Pos()), x.Name, selector.Sel.Name)
				}
				return true
			})
		}
	}
	for dir := range showsInside {
		if !needed[dir] {
			t.Errorf("%s shows no type of the inside any more: take it out of showsInside", dir)
		}
	}
}

// inside returns the names by which a file knows packages of the inside.
func (s source) inside() map[string]bool {
	names := map[string]bool{}
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || path.Dir(imported) != module+"/internal" || !slices.Contains(insideOnly, path.Base(imported)) {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}

// exportedTypes lists what the exported declarations of a file show of types: signatures, exported fields and methods,
// what a type is made of. A variable or constant whose declaration leaves its type out shows that of its value.
func exportedTypes(f *ast.File) []ast.Node {
	var shown []ast.Node
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
				shown = append(shown, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				shown = append(shown, specTypes(spec)...)
			}
		}
	}
	return shown
}

func specTypes(spec ast.Spec) []ast.Node {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			return typeParts(s)
		}
	case *ast.ValueSpec:
		if !slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
			return nil
		}
		if s.Type != nil {
			return []ast.Node{s.Type}
		}
		var shown []ast.Node
		for _, v := range s.Values {
			shown = append(shown, v)
		}
		return shown
	}
	return nil
}

// typeParts lists what users see of a type: not the fields and methods without a capital.
func typeParts(s *ast.TypeSpec) []ast.Node {
	var shown []ast.Node
	if s.TypeParams != nil {
		shown = append(shown, s.TypeParams)
	}
	var fields *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		return append(shown, s.Type)
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
			shown = append(shown, f.Type)
		}
	}
	return shown
}

// TestExportedTypes checks the types that TestFaceTypes looks at, by an example of each form.
func TestExportedTypes(t *testing.T) {
	for code, want := range map[string]bool{
		"type A = core.Run":                          true,
		"type A struct{ B core.Run }":                true,
		"type A struct{ b core.Run }":                false,
		"type A struct{ *core.Run }":                 true,
		"type A interface{ F() []core.Run }":         true,
		"type A interface{ f() []core.Run }":         false,
		"type A[T core.Run] struct{}":                true,
		"type a = core.Run":                          false,
		"func F(map[string]*core.Run) {}":            true,
		"func f(core.Run) {}":                        false,
		"func (A) F() core.Run { panic(0) }":         true,
		"func (a) F() core.Run { panic(0) }":         false,
		"func F() { var r core.Run; println(r.ID) }": false,
		"var A = core.Run{}":                         true,
		"const A = core.First":                       true,
		"const A int = core.First":                   false,
	} {
		file := parse(t, "package p\n"+code)
		got := false
		for _, shown := range exportedTypes(file) {
			ast.Inspect(shown, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				got = got || ok && selector.X.(*ast.Ident).Name == "core"
				return true
			})
		}
		if got != want {
			t.Errorf("%s: shows core: %t, want %t", code, got, want)
		}
	}
}

func parse(t *testing.T, code string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
