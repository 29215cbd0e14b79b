package house

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Where tests run: make test runs all that do not ask internal/nightly, make nightly all, and make weekly those that
// only a target of their own runs.
var (
	makeTarget  = regexp.MustCompile(`(?m)^([a-z-]+):`)
	makeCall    = regexp.MustCompile(`\$\(MAKE\) ([a-z-]+)`)
	testPattern = regexp.MustCompile(`\$\(GO\) test (\./[a-z/]+) -run '\^([A-Za-z]+)(\$\$)?'`)
	racedRooms  = regexp.MustCompile(`(?m)^RACED += ((?:.*\\\n)*.*)$`)
)

// makefile returns the recipe of each target, and the text.
func makefile(t *testing.T) (recipes map[string]string, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	text, recipes = string(data), map[string]string{}
	for _, place := range makeTarget.FindAllStringSubmatchIndex(text, -1) {
		recipe, _, _ := strings.Cut(text[place[1]:], "\n\n")
		recipes[text[place[2]:place[3]]] = recipe
	}
	return recipes, text
}

// TestListsLeaveNothingOut checks that make test and make nightly run all packages and choose no tests by name, so that
// a test is in the first list, or in the second one where it asks internal/nightly.
func TestListsLeaveNothingOut(t *testing.T) {
	recipes, text := makefile(t)
	if strings.Contains(text, "-skip") {
		t.Error("the Makefile skips tests by name: let them ask internal/nightly")
	}
	calm := `CALM    = $$($(GO) list $(FIRST) ./... $(if $(RACE),| grep -vxF "$$($(GO) list $(RACED))"))`
	if !strings.Contains(text, "\n"+calm+"\n") {
		t.Error("make test does not run all packages that the race detector does not watch: " + calm)
	}
	for list, wanted := range map[string][]string{
		"test": {
			"$(GO) test -short $(ATONCE) -vet=off -timeout 30m $(CALM)",
			"$(RACING) -short $(ATONCE) -vet=off -timeout 30m $(RACED)",
		},
		"nightly": {"bash .ci/run", "$(GO) test -count=1 -timeout 60m ./...", "$(RACING) -count=1 -timeout 120m ./..."},
	} {
		for _, part := range wanted {
			if !strings.Contains(recipes[list], part) {
				t.Errorf("make %s does not run %s", list, part)
			}
		}
		if strings.Contains(recipes[list], "-run") {
			t.Errorf("make %s chooses tests by name", list)
		}
	}
	for _, list := range []string{"nightly", "weekly"} {
		for _, call := range makeCall.FindAllStringSubmatch(recipes[list], -1) {
			if recipes[call[1]] == "" {
				t.Errorf("make %s calls make %s, which is not there", list, call[1])
			}
		}
	}
}

// TestListsNameWhatExists checks that every test and package that the Makefile names exists.
func TestListsNameWhatExists(t *testing.T) {
	tests, dirs := map[string][]string{}, map[string]bool{} // the tests of each folder; all folders
	for _, s := range sources(t) {
		dir := "./" + filepath.ToSlash(filepath.Dir(s.path))
		dirs[strings.TrimSuffix(dir, "/.")] = true
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.isTest() && f.Recv == nil {
				tests[dir] = append(tests[dir], f.Name.Name)
			}
		}
	}
	_, text := makefile(t)
	named := testPattern.FindAllStringSubmatch(text, -1)
	if len(named) < 5 {
		t.Errorf("only %d tests are found in the Makefile", len(named))
	}
	for _, n := range named {
		is := func(name string) bool { return name == n[2] || n[3] == "" && strings.HasPrefix(name, n[2]) }
		if !slices.ContainsFunc(tests[n[1]], is) {
			t.Errorf("the Makefile runs %s of %s, which is not there", n[2], n[1])
		}
	}
	raced := racedRooms.FindStringSubmatch(text)
	if raced == nil {
		t.Fatal("the Makefile does not say what the race detector watches")
	}
	for _, dir := range strings.Fields(strings.ReplaceAll(raced[1], "\\", "")) {
		if !dirs[strings.TrimSuffix(dir, "/...")] {
			t.Errorf("the race detector watches %s, which is not there", dir)
		}
	}
}

// TestNightlyIsAsked checks that only internal/nightly asks testing.Short, so that each skipped test says when it
// runs. Tests with a target of their own are run by make weekly.
func TestNightlyIsAsked(t *testing.T) {
	recipes, _ := makefile(t)
	weekly, asks := map[string]bool{}, 0
	for _, s := range sources(t) {
		if filepath.ToSlash(filepath.Dir(s.path)) != "internal/nightly" {
			s.calls("testing", []string{"Short"}, func(place, call string) {
				t.Errorf("%s: %s: ask internal/nightly", place, call)
			})
		}
		s.calls(module+"/internal/nightly", []string{"Only", "Few"}, func(string, string) { asks++ })
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Weekly" {
				target, _ := call.Args[2].(*ast.BasicLit)
				weekly[strings.Trim(target.Value, `"`)] = true
			}
			return true
		})
	}
	if asks == 0 || len(weekly) == 0 {
		t.Errorf("%d places ask internal/nightly, %d targets are for each week", asks, len(weekly))
	}
	for target := range maps.Keys(weekly) {
		if !strings.Contains(recipes["weekly"], "$(MAKE) "+target) {
			t.Errorf("a test says that make %s runs it, which make weekly does not call", target)
		}
	}
}

// TestProgramsAreBuiltOnce checks that a test that starts a program has it built by internal/pawlbin.
func TestProgramsAreBuiltOnce(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for i := range len(call.Args) - 1 {
				program, _ := call.Args[i].(*ast.BasicLit)
				verb, _ := call.Args[i+1].(*ast.BasicLit)
				if program != nil && verb != nil && program.Value == `"go"` && verb.Value == `"build"` {
					t.Errorf("%s:%d: it builds a program: let internal/pawlbin do it", s.path, s.line(n.Pos()))
				}
			}
			return true
		})
	}
}
