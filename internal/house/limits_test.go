package house

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/duration"
)

// TestLimitsPage checks that every number of docs/reference/limits.md is the value of the constant beside it.
func TestLimitsPage(t *testing.T) {
	src, err := os.ReadFile("../../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| ([0-9][^|]*) \\| .* \\| `([^`]+)` (\\w+) \\|$")
	rows := row.FindAllStringSubmatch(string(src), -1)
	if lines := strings.Count(string(src), "\n| "); len(rows) != lines-6 { // six tables have a line of titles each
		t.Errorf("%d of the page's %d lines of tables name a number and a constant", len(rows), lines)
	}
	for _, row := range rows {
		value, isTime, err := constantOf(filepath.Join("../..", row[2]), row[3])
		if err != nil {
			t.Errorf("%s: %v", row[3], err)
			continue
		}
		if want := shown(value, isTime); !slices.Contains(want, row[1]) {
			t.Errorf("the page says %s of %s in %s, which is %s", row[1], row[3], row[2], strings.Join(want, " or "))
		}
	}
}

// shown returns the ways in which the page may write a value.
func shown(value int64, isTime bool) []string {
	if isTime {
		return []string{duration.Format(time.Duration(value))}
	}
	digits := fmt.Sprint(value)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	out := []string{digits}
	switch {
	case value%(1<<20) == 0:
		out = append(out, fmt.Sprintf("%d MiB", value>>20))
	case value%(1<<10) == 0:
		out = append(out, fmt.Sprintf("%d KiB", value>>10))
	}
	return out
}

// constantOf finds a constant of a package and works out its value.
func constantOf(folder, name string) (value int64, isTime bool, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return 0, false, err
	}
	var found ast.Expr
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return 0, false, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			for i := 0; ok && i < min(len(spec.Names), len(spec.Values)); i++ {
				if spec.Names[i].Name == name {
					found = spec.Values[i]
				}
			}
			return true
		})
	}
	if found == nil {
		return 0, false, fmt.Errorf("%s has no such constant", folder)
	}
	worked, isTime := workedOut(found)
	value, exact := constant.Int64Val(constant.ToInt(worked))
	if !exact {
		return 0, false, fmt.Errorf("its value cannot be worked out")
	}
	return value, isTime, nil
}

// workedOut works out an expression of numbers and lengths of time.
func workedOut(e ast.Expr) (v constant.Value, isTime bool) {
	units := map[string]time.Duration{
		"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), false
	case *ast.ParenExpr:
		return workedOut(e.X)
	case *ast.SelectorExpr:
		if unit, ok := units[e.Sel.Name]; ok {
			return constant.MakeInt64(int64(unit)), true
		}
	case *ast.BinaryExpr:
		x, isTime := workedOut(e.X)
		y, alsoTime := workedOut(e.Y)
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(n)), isTime
		}
		return constant.BinaryOp(x, e.Op, y), isTime || alsoTime
	}
	return constant.MakeUnknown(), false
}
