package house

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// runbook says what to do about each alert and each error of a log.
const runbook = "../../docs/operations/runbook.md"

// TestRunbookAlerts checks that the runbook has a section for each alert, and no other.
func TestRunbookAlerts(t *testing.T) {
	rules, err := os.ReadFile("../../docs/operations/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Pawl\w+)$`).FindAllStringSubmatch(string(page), -1) {
		sections[m[1]] = true
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	for _, m := range alerts {
		if !sections[m[1]] {
			t.Errorf("the runbook has no section %s", m[1])
		}
		delete(sections, m[1])
	}
	for name := range sections {
		t.Errorf("the runbook has a section %s, and there is no such alert", name)
	}
	if len(alerts) < 10 {
		t.Errorf("only %d alerts are found", len(alerts))
	}
}

// TestRunbookErrors checks that each error that is logged has an id of its own, and that the runbook lists it.
func TestRunbookErrors(t *testing.T) {
	page, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = false
	}
	id := regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)
	for _, f := range sources(t) {
		if f.isTest() || strings.HasPrefix(f.path, "examples/") || strings.HasPrefix(f.path, "tools/") {
			continue
		}
		place := func(call *ast.CallExpr) string { return f.path + ":" + strconv.Itoa(f.line(call.Pos())) }
		ast.Inspect(f.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !logsError(call) {
				return true
			}
			name := idOf(call)
			used, known := listed[name]
			switch {
			case !id.MatchString(name):
				t.Errorf("%s: an error is logged without \"id\" and a literal behind its text", place(call))
			case !known:
				t.Errorf("%s: the runbook does not list %s", place(call), name)
			case used:
				t.Errorf("%s: the id %s is of another error, too", place(call), name)
			}
			if known {
				listed[name] = true
			}
			return true
		})
	}
	for name, used := range listed {
		if !used {
			t.Errorf("the runbook lists %s, which no code logs", name)
		}
	}
}

// logsError reports whether a call writes a line of level ERROR.
func logsError(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Error" && method.Sel.Name != "ErrorContext" || len(call.Args) == 0 {
		return false
	}
	switch x := method.X.(type) {
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(x.Name), "log") || x.Name == "logger" || x.Name == "slog"
	case *ast.SelectorExpr:
		name := strings.ToLower(x.Sel.Name)
		return strings.HasSuffix(name, "log") || name == "logger"
	case *ast.CallExpr:
		return true // slog.Default()
	default:
		return false
	}
}

// idOf returns the id of an error that is logged; "": it has none. Where the attributes are a list that was made
// before, the list begins with it.
func idOf(call *ast.CallExpr) string {
	for i, arg := range call.Args[1:] {
		lit, ok := arg.(*ast.BasicLit)
		if ok && lit.Kind == token.STRING && lit.Value == `"id"` && i+2 < len(call.Args) {
			if value, ok := call.Args[i+2].(*ast.BasicLit); ok {
				text, _ := strconv.Unquote(value.Value) // it is a literal
				return text
			}
		}
		found := ""
		ast.Inspect(arg, func(n ast.Node) bool {
			if list, ok := n.(*ast.CompositeLit); ok && len(list.Elts) > 1 && found == "" {
				if value, ok := list.Elts[1].(*ast.BasicLit); ok {
					found, _ = strconv.Unquote(value.Value) // it is a literal
				}
			}
			return true
		})
		if found != "" {
			return found
		}
	}
	return ""
}
