package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Lengths in lines; CONTRIBUTING.md says them, too.
const (
	fileLimit = 500
	funcLimit = 70
)

// vague are the package names that say nothing about what is inside.
var vague = []string{
	"base", "common", "helper", "helpers", "impl", "manager", "managers", "misc", "shared", "util", "utils",
}

// unfinished is a mark of work left for later; what is left for later is left out of the code.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// A source is one parsed Go file of the module.
type source struct {
	path string // from the module's folder
	fset *token.FileSet
	file *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

func (s source) lines() int { return s.fset.File(s.file.FileStart).LineCount() }

func TestFileLength(t *testing.T) {
	for _, s := range sources(t) {
		if n := s.lines(); n > fileLimit {
			t.Errorf("%s has %d lines (limit %d): one noun a file", s.path, n, fileLimit)
		}
	}
}

func TestFunctionLength(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue // a table of cases may be long
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > funcLimit {
				t.Errorf("%s:%d: %s has %d lines (limit %d)", s.path, s.line(f.Pos()), f.Name.Name, n, funcLimit)
			}
		}
	}
}

// TestLengthsAreSaid: contributors read the same limits.
func TestLengthsAreSaid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("has at most %d lines, a function has at most %d.", fileLimit, funcLimit),
		fmt.Sprintf("at most %d columns", columnLimit),
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("CONTRIBUTING.md does not say %q", want)
		}
	}
}

func TestPackageNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.Dir(s.path)
		if name := strings.TrimSuffix(s.file.Name.Name, "_test"); !seen[dir] && slices.Contains(vague, name) {
			seen[dir] = true
			t.Errorf("%s: package %s says nothing about what is inside", dir, name)
		}
	}
}

func TestNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			s.calls("time", []string{"Sleep"}, func(place, call string) {
				t.Errorf("%s: %s in a test: wait for the event, or use testing/synctest", place, call)
			})
		}
	}
}

// TestPureRoomsAskNoClock covers what an import table cannot: a pure room uses package time for its types only.
func TestPureRoomsAskNoClock(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	h := house(t)
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(pure, h.roomOf(module+"/"+filepath.ToSlash(filepath.Dir(s.path)))) {
			continue
		}
		s.calls("time", clock, func(place, call string) {
			t.Errorf("%s: %s in a pure room: the instant arrives as an argument", place, call)
		})
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s:%d: a pure room starts no goroutine", s.path, s.line(n.Pos()))
			case *ast.ChanType:
				t.Errorf("%s:%d: a pure room has no channel", s.path, s.line(n.Pos()))
			}
			return true
		})
	}
}

func TestNothingLeftForLater(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if mark := unfinished.FindString(c.Text); mark != "" {
					t.Errorf("%s:%d: %s: finish it, or leave it out", s.path, s.line(c.Pos()), mark)
				}
			}
		}
	}
}

// calls reports each use of one of the names of a package, under whatever name it is imported.
func (s source) calls(path string, names []string, report func(place, call string)) {
	local := ""
	for _, spec := range s.file.Imports {
		if spec.Path.Value == `"`+path+`"` {
			local = path[strings.LastIndex(path, "/")+1:]
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, selector.Sel.Name) {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == local {
			report(fmt.Sprintf("%s:%d", s.path, s.line(n.Pos())), path+"."+selector.Sel.Name)
		}
		return true
	})
}

// sources parses every Go file of the checkout that a person wrote, modules inside the module included.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed parses the files once for all tests.
var parsed = sync.OnceValues(func() ([]source, error) {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	return read(dir)
})

// read parses every Go file below a folder.
func read(dir string) ([]source, error) {
	var all []source
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil // a file that a build or an editor just removed
			}
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := path != dir && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"))
			if hidden || name == "testdata" || name == "node_modules" || name == "vendor" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			all = append(all, source{
				path: strings.TrimPrefix(path, dir+string(filepath.Separator)), fset: fset,
				file: file,
			})
		}
		return nil
	})
	return all, err
}
