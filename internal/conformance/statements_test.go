package conformance

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the page of the statements anew")

const (
	statementsFile = "testdata/statements.txt"
	statementsPage = treeRoot + "/docs/dialects/statements.md"
)

// statement matches a line of the statements: what shows it, and the statement.
var statement = regexp.MustCompile(`^(` + shows + `(?:, ` + shows + `)*): (\S.*\.)$`)

const shows = `(?:[SVZAT]\d+|Test\w+ of [\w/]+)`

// statementsOf is how many statements the document of each system makes.
var statementsOf = map[string]int{"Steep": 36, "Stevora": 38, "Zart": 44, "Aether": 48, "Temporal": 47}

// TestStatements checks that each statement of the five documents has a row of the contract or another test that shows
// it, and the page docs/dialects/statements.md lists them all. With -rewrite the page is written anew.
func TestStatements(t *testing.T) {
	text, err := os.ReadFile(statementsFile)
	if err != nil {
		t.Fatal(err)
	}
	cases := policyCases(t)
	var page bytes.Buffer
	page.WriteString(`# What the five documents say

Each statement of the documents that describe the timeouts and retries of the five systems, in short, and what shows
that Pawl does it: a row of the contract, which is a test ` + "`TestConformance/<row>`" + ` of
` + "`internal/conformance`" + `, or another test. The page is generated from
` + "`internal/conformance/testdata/statements.txt`" + `; a test fails when a statement loses what shows it.
`)
	system, number := "", 0
	counted := map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			system, _, _ = strings.Cut(title, ":")
			number = 0
			fmt.Fprintf(&page, "\n## %s\n\n| | statement | shown by |\n|---|---|---|\n", title)
			continue
		}
		if line == "" {
			continue
		}
		found := statement.FindStringSubmatch(line)
		if found == nil {
			t.Errorf("%s: %q is not written as `S1, TestX of folder: Statement.`", statementsFile, line)
			continue
		}
		number++
		counted[system]++
		shown := strings.Split(found[1], ", ")
		for i, by := range shown {
			if name, folder, isTest := strings.Cut(by, " of "); isTest {
				shown[i] = fmt.Sprintf("`%s` of `%s`", name, folder)
				if !hasTest(t, folder, name) {
					t.Errorf("%s %d has lost %s: %s", system, number, by, found[2])
				}
			} else if rows[by] == nil && cases[by] == nil {
				t.Errorf("%s %d has lost the row %s: %s", system, number, by, found[2])
			}
		}
		fmt.Fprintf(&page, "| %d | %s | %s |\n", number, found[2], strings.Join(shown, ", "))
	}
	for system, want := range statementsOf {
		if counted[system] != want {
			t.Errorf("%s has %d statements, not %d", system, counted[system], want)
		}
	}
	if *rewrite {
		if err := os.WriteFile(statementsPage, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(statementsPage); err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("%s is not what the statements say (%v); run it with -rewrite", statementsPage, err)
	}
}

// hasTest reports whether a folder of the tree has a test function.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(treeRoot, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("\nfunc "+name+"(t *testing.T)")) {
			return true
		}
	}
	return false
}
