package house

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// meanings are names of types that mean one thing each, with the folders that declare one.
var meanings = map[string]struct {
	meaning string
	folders []string
}{
	"Engine": {
		"carries runs on; what a package needs of it has another name, such as EngineCalls",
		[]string{".", "internal/engine"},
	},
	"Workflow": {"a function that runs durably", []string{"."}},
	"Place":    {"where a database lies", []string{"internal/daemon/database"}},
	"Host":     {"runs the functions of workflows in one process", []string{"internal/body"}},
	"host":     {"a Host, with what its users need beside it", []string{".", "internal/sim"}},
	"Remote":   {"in another process: that is a package, and no type", nil},
	"remote":   {"in another process: that is a package, and no type", nil},
}

// TestTypesOfOneMeaning checks that a word which once meant several things names types of one thing.
func TestTypesOfOneMeaning(t *testing.T) {
	found := map[string][]string{}
	for folder, names := range typesByFolder(t) {
		for _, name := range names {
			found[name] = append(found[name], folder)
			if is := meanings[name]; is.meaning != "" && !slices.Contains(is.folders, folder) {
				t.Errorf("%s has a type %s, which means: %s", folder, name, is.meaning)
			}
		}
	}
	for name, is := range meanings {
		for _, folder := range is.folders {
			if !slices.Contains(found[name], folder) {
				t.Errorf("%s has no type %s any more: take it out of meanings", folder, name)
			}
		}
	}
}

// TestConfigs checks that a Config is what an exported function of its package takes to make something of it.
func TestConfigs(t *testing.T) {
	takes := map[string]bool{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || s.isTest() || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			for _, p := range f.Type.Params.List {
				if id, ok := p.Type.(*ast.Ident); ok && id.Name == "Config" {
					takes[s.folder()] = true
				}
			}
		}
	}
	for folder, names := range typesByFolder(t) {
		if slices.Contains(names, "Config") && !takes[folder] {
			t.Errorf("%s has a Config that no function takes which makes something: name it after what it says", folder)
		}
	}
}

// namesLimit is how many packages may each have an exported type of one name.
const namesLimit = 4

// manyPackages are the names that more packages have. Config is what each makes something of; see TestConfigs. The
// others are the same thing at several stages: as a document has it, as callers see it, as core keeps it.
var manyPackages = map[string]int{
	"Config": 15, "Error": 9, "Node": 6, "Result": 5, "Run": 5, "Source": 6, "Step": 6, "Store": 6,
}

func TestNamesOfTypes(t *testing.T) {
	count := map[string]int{}
	for _, names := range typesByFolder(t) {
		for _, name := range names {
			if ast.IsExported(name) {
				count[name]++
			}
		}
	}
	ratchet(t, "packages with such a type", count, namesLimit, manyPackages)
}

// typesByFolder returns the names of the types that each folder declares outside of tests.
func typesByFolder(t *testing.T) map[string][]string {
	names := map[string][]string{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE || s.isTest() {
				continue
			}
			for _, spec := range d.Specs {
				names[s.folder()] = append(names[s.folder()], spec.(*ast.TypeSpec).Name.Name)
			}
		}
	}
	return names
}
