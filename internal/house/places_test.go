package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// examples are the rows of docs/design/places.md: what names the example of each in a file of code.
var examples = map[string]string{
	"an action of flow files":              `\bMail\b|"mail"`,
	"a key of an action":                   `"interpreter"`,
	"a record of runs":                     `\bTurned\b`,
	"a kind of steps":                      `\bKindSend\b`,
	"a dialect":                            `dialect/stevora"|"stevora"`,
	"something that callers read of a run": `\bRunAt\(`,
	"a journal":                            `journal/sqlite"`,
	"a verb of the command":                `\boverviewCommand\b`,
	"a setting of the server":              `"log-level"`,
}

// TestPlaces counts in how many files the examples are named.
func TestPlaces(t *testing.T) {
	rows := map[string]int{}
	for line := range strings.Lines(page(t, "docs/design/places.md")) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 {
			if n, err := strconv.Atoi(strings.TrimSpace(cells[3])); err == nil {
				rows[strings.TrimSpace(cells[1])] = n
			}
		}
	}
	if len(rows) != len(examples) {
		t.Errorf("the page has %d rows, and the test %d examples", len(rows), len(examples))
	}
	texts := namedIn(t)
	for what, pattern := range examples {
		names := regexp.MustCompile(pattern)
		var found []string
		for path, text := range texts {
			if names.MatchString(text) {
				found = append(found, path)
			}
		}
		if slices.Sort(found); len(found) != rows[what] {
			t.Errorf("%s: %d files name %s, and the page says %d: %s", what, len(found), pattern, rows[what],
				strings.Join(found, " "))
		}
	}
}

// namedIn returns the text of the files that ship, without comments, by their paths.
func namedIn(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{"flow/schema.json": page(t, "flow/schema.json")}
	for _, s := range sources(t) {
		path := filepath.ToSlash(s.path)
		first, _, _ := strings.Cut(path, "/")
		if s.isTest() || slices.Contains([]string{"tools", "examples"}, first) ||
			within(path, "internal/sim") || within(path, "internal/conformance") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top(t), s.path))
		if err != nil {
			t.Fatal(err)
		}
		start := s.file.FileStart
		for _, group := range s.file.Comments {
			for i := group.Pos() - start; i < group.End()-start; i++ {
				text[i] = ' '
			}
		}
		texts[path] = string(text)
	}
	return texts
}
