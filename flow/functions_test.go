package flow

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr/builtin"
)

// unknownHere are functions of the expression library that flows do not have, since a flow decides the same each time.
var unknownHere = []string{"now"}

// ownFunctions are those that the library does not have.
var ownFunctions = []string{"q", "u", "fail"}

// TestFunctionsAreDocumented checks that the page about expressions names every function, and that each of its
// examples gives the value that stands beside it.
func TestFunctionsAreDocumented(t *testing.T) {
	rewrite := flag.Lookup("rewrite").Value.String() == "true" // the flag of this package's transcripts
	path := filepath.Join("..", "docs", "reference", "expressions.md")
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(src)
	rows := regexp.MustCompile("(?m)^\\| `([a-zA-Z0-9]+)` \\| `(.+?)` \\| `(.*?)` \\|").FindAllStringSubmatch(text, -1)
	var named []string
	for _, row := range rows {
		name, example, want := row[1], strings.ReplaceAll(row[2], `\|`, "|"), strings.ReplaceAll(row[3], `\|`, "|")
		named = append(named, name)
		if !strings.Contains(example, name+"(") {
			t.Errorf("the example of %s does not call it: %s", name, example)
		}
		output := "${{ " + example + " }}"
		if name == "q" {
			continue // it stands in the text of a shell only; see TestShell
		}
		got, f := evaluate(t, output, `{"list": [3, 1, 2], "map": {"b": 2, "a": 1}, "name": "Ada"}`)
		if f != nil {
			got = f.Message
		}
		if got != want && rewrite {
			line := strings.Replace(row[0], "`"+row[3]+"`", "`"+strings.ReplaceAll(got, "|", `\|`)+"`", 1)
			text = strings.Replace(text, row[0], line, 1)
		} else if got != want {
			t.Errorf("%s gives %s, and the page says %s", example, got, want)
		}
	}
	if rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	known := slices.Clone(ownFunctions)
	for _, f := range builtin.Builtins {
		if !slices.Contains(unknownHere, f.Name) {
			known = append(known, f.Name)
		}
	}
	slices.Sort(known)
	slices.Sort(named)
	if known = slices.Compact(known); !slices.Equal(named, known) {
		t.Errorf("the page names\n%q,\nand there are\n%q", named, known)
	}
}
