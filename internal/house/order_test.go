package house

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// upwardArrows is how many pairs of files of the engine go against the order in engine.txt: the lower one uses
// something that the upper one declares. It may only fall.
const upwardArrows = 38

// TestOrderOfTheEngine checks that the files of the engine have an order in which one can read them.
func TestOrderOfTheEngine(t *testing.T) {
	place := map[string]int{}
	for i, file := range orderOfFiles(t) {
		place[file] = i
	}
	cfg := &packages.Config{
		Mode: packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports, Dir: top(t),
	}
	found, err := packages.Load(cfg, "./internal/engine")
	if err != nil || len(found) != 1 || len(found[0].Errors) > 0 {
		t.Fatalf("the engine is not read: %v, %v", err, found)
	}
	p := found[0]
	upward := map[string]bool{}
	for _, file := range p.Syntax {
		from := filepath.Base(p.Fset.Position(file.Pos()).Filename)
		at, listed := place[from]
		if !listed {
			t.Errorf("%s has no place in engine.txt", from)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || p.TypesInfo.Uses[id] == nil || p.TypesInfo.Uses[id].Pkg() != p.Types {
				return true
			}
			used := p.TypesInfo.Uses[id]
			if to := filepath.Base(p.Fset.Position(used.Pos()).Filename); place[to] < at {
				upward[fmt.Sprintf("%s uses %s", from, to)] = true
			}
			return true
		})
	}
	if n := len(upward); n > upwardArrows {
		t.Errorf("%d arrows of the engine go up, at most %d are wanted:\n%s", n, upwardArrows,
			strings.Join(slices.Sorted(maps.Keys(upward)), "\n"))
	} else if n < upwardArrows {
		t.Errorf("%d arrows of the engine go up: write that in place of %d", n, upwardArrows)
	}
}

// orderOfFiles reads engine.txt.
func orderOfFiles(t *testing.T) (order []string) {
	text, err := os.ReadFile("engine.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		file := strings.TrimSpace(line)
		if file == "" || strings.HasPrefix(file, "#") {
			continue
		}
		if _, err := os.Stat(filepath.Join(top(t), "internal/engine", file)); err != nil {
			t.Errorf("engine.txt has %s, and the engine does not", file)
		}
		order = append(order, file)
	}
	return order
}
