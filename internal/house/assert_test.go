package house

import (
	"go/ast"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// asked are the interfaces that a program may ask a value for by a type assertion, and why. Elsewhere a value says by a
// method what it can do, which may return nil: that is seen where the interface is declared, and a type that stands in
// front of another one cannot lose it.
var asked = map[string]string{
	"..Client":                   "package pawl makes it for packages that it cannot import",
	"interface{ Close }":         "a connection of database/sql is a driver's",
	"interface{ Unwrap }":        "what the standard library asks errors for",
	"tools/bench.counter":        "of journals only that of PostgreSQL knows its size",
	"internal/journal.Blockable": "of journals only that of PostgreSQL knows who holds up a commit",
	"internal/cluster.Shareable": "package journal cannot name the nodes, which package cluster has",
	"internal/fake.Table":        "a context's values have no type",
	"internal/relay.Journal":     "package journal cannot name the outbox, which package relay has",
	"internal/tree.Fielder":      "a tree has values of any type",
	"internal/worker.Announcer":  "one executor announces attempts itself; all others would say that they do not",
	"internal/worker.Confirmer":  "an engine confirms what is reported; the reporters of tests need not",
	"internal/worker.Instant":    "two executors take no time; all others would say that they do",
}

// TestOptionalInterfaces finds type assertions to interfaces of this module, and to those that have no name.
func TestOptionalInterfaces(t *testing.T) {
	all := sources(t)
	own := map[string]bool{} // "folder.Name" of each interface
	for _, s := range all {
		for name := range s.interfaces() {
			own[s.folder()+"."+name] = true
		}
	}
	found := map[string]bool{}
	for _, s := range all {
		if s.isTest() {
			continue
		}
		imports := s.imports()
		for _, e := range s.assertions() {
			name := ""
			switch x := e.(type) {
			case *ast.InterfaceType:
				if name = methodsOf(x); name == "" {
					continue
				}
			case *ast.Ident:
				name = s.folder() + "." + x.Name
			case *ast.SelectorExpr:
				of, _ := x.X.(*ast.Ident)
				if of == nil {
					continue
				}
				name = imports[of.Name] + "." + x.Sel.Name
			default:
				continue
			}
			if _, literal := e.(*ast.InterfaceType); !literal && !own[name] {
				continue
			}
			if found[name] = true; asked[name] == "" {
				t.Errorf("%s:%d: asks a value for %s: let it say by a method whether it has that",
					s.path, s.line(e.Pos()), name)
			}
		}
	}
	for name := range asked {
		if !found[name] {
			t.Errorf("nobody asks for %s any more: take it out of the table", name)
		}
	}
}

// methodsOf names an interface by its methods; "": it has none.
func methodsOf(i *ast.InterfaceType) string {
	var names []string
	for _, f := range i.Methods.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "interface{ " + strings.Join(names, ", ") + " }"
}

// folder returns where the file is, from the module's folder.
func (s source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

// interfaces lists the interfaces that a file declares.
func (s source) interfaces() map[string]bool {
	names := map[string]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if _, is := spec.Type.(*ast.InterfaceType); is {
				names[spec.Name.Name] = true
			}
		}
		return true
	})
	return names
}

// imports returns the folders of this module's packages by the names under which a file imports them.
func (s source) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		folder, ok := folderOf(imported)
		if !ok {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = folder
	}
	return names
}

func folderOf(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// assertions lists the types that a file asks values for, in type assertions and type switches.
func (s source) assertions() []ast.Expr {
	var types []ast.Expr
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			if n.Type != nil {
				types = append(types, n.Type)
			}
		case *ast.TypeSwitchStmt:
			for _, clause := range n.Body.List {
				types = append(types, clause.(*ast.CaseClause).List...)
			}
		}
		return true
	})
	return slices.DeleteFunc(types, func(e ast.Expr) bool { return e == nil })
}
