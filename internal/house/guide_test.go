package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notQuoted are the pages whose Go code is not taken from programs.
var notQuoted = []string{
	"vet.md",       // shows what is wrong
	"sharing.md",   // shows each form beside its words in a flow file
	"telemetry.md", // is about a package of its own
}

var (
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?)```")
	omission = regexp.MustCompile(`(?m)^\s*…$\n?`) // a line that stands for what is left out of a quotation
)

// TestGuideQuotesCode checks that the Go code of README and of the manual is taken from the examples, which are
// compiled and tested.
func TestGuideQuotesCode(t *testing.T) {
	var code []string
	for _, s := range sources(t) {
		base := filepath.Base(s.path)
		example := strings.HasPrefix(filepath.ToSlash(s.path), "examples/") || strings.HasPrefix(base, "example_")
		if !example && base != "guide_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top(t), s.path))
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, unindented(string(text)))
	}
	pages := guide(t)
	for _, page := range notQuoted {
		delete(pages, page)
	}
	pages["../../README.md"] = page(t, "README.md")
	for name, text := range pages {
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			for _, part := range omission.Split(block[1], -1) {
				quoted := func(file string) bool { return strings.Contains(file, "\n"+unindented(part)) }
				if !slices.ContainsFunc(code, quoted) {
					t.Errorf("%s shows code that is neither in examples/ nor in an example test:\n%s",
						name, part)
				}
			}
		}
	}
}

// TestGuideIndex checks that the index of the manual links to each of its pages.
func TestGuideIndex(t *testing.T) {
	pages := guide(t)
	for page := range pages {
		if page != "README.md" && !strings.Contains(pages["README.md"], "]("+page+")") {
			t.Errorf("docs/guide/README.md does not link to %s", page)
		}
	}
}

// guide returns the text of each page of the manual.
func guide(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(top(t), "docs", "guide", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal("there is no manual", err)
	}
	pages := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = string(text)
	}
	return pages
}

// unindented returns the lines of a text without the space at their beginning and end.
func unindented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimSpace(line))
		out.WriteByte('\n')
	}
	return out.String()
}
