package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostWords is how long the pages may be that one reads first.
var mostWords = map[string]int{"README.md": 900, "ARCHITECTURE.md": 1200}

func TestFirstPagesAreShort(t *testing.T) {
	for name, most := range mostWords {
		if n := len(strings.Fields(page(t, name))); n > most {
			t.Errorf("%s has %d words, at most %d are read in five minutes: a page below docs has room", name, n, most)
		}
	}
}

// TestFirstCommands checks that the first command of README does the main job, the second one runs the tests.
func TestFirstCommands(t *testing.T) {
	_, block, _ := strings.Cut(page(t, "README.md"), "```sh\n")
	want := "go run -tags small ./cmd/pawl run examples/backup/flow.yaml\nmake test\n```"
	if !strings.HasPrefix(block, want) {
		t.Errorf("README.md begins with other commands than %q", want)
	}
}

var (
	anyCode  = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	pageLink = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSaid  = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // characters of a heading that its part's address leaves out
)

// TestLinks checks that every link of the pages leads to something, pictures and parts of pages included.
func TestLinks(t *testing.T) {
	docs := documents(t)
	for _, pattern := range []string{"docs/adr/*.md", "examples/*/*.md"} {
		docs = append(docs, files(t, pattern)...)
	}
	for _, doc := range docs {
		for _, link := range pageLink.FindAllStringSubmatch(anyCode.ReplaceAllString(page(t, doc), ""), -1) {
			target := doc
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(doc), filepath.FromSlash(link[1]))
			}
			if _, err := os.Stat(filepath.Join(top(t), target)); err != nil {
				t.Errorf("%s links to %s: %v", doc, link[1], err)
				continue
			}
			if link[2] == "" || !strings.HasSuffix(target, ".md") {
				continue
			}
			if !slices.Contains(partsOf(page(t, target)), link[2]) {
				t.Errorf("%s links to %s#%s, which is no part of that page", doc, link[1], link[2])
			}
		}
	}
}

// TestPicturesAreShown checks that a picture in git is on a page; make pictures takes the others.
func TestPicturesAreShown(t *testing.T) {
	pages := ""
	for _, doc := range documents(t) {
		pages += page(t, doc)
	}
	for _, picture := range files(t, "docs/ui/*.png") {
		if !strings.Contains(pages, filepath.Base(picture)) {
			t.Errorf("no page shows %s", picture)
		}
	}
}

// TestDecisionsAreListed checks that the index of decisions has each of them with its title, once.
func TestDecisionsAreListed(t *testing.T) {
	index := page(t, "docs/adr/README.md")
	for _, file := range files(t, "docs/adr/[0-9]*.md") {
		name := filepath.Base(file)
		head, _, _ := strings.Cut(page(t, file), "\n")
		_, title, _ := strings.Cut(head, ". ")
		number := strings.TrimLeft(name[:4], "0")
		if row := "| [" + number + "](" + name + ") | " + title + " |"; strings.Count(index, row) != 1 {
			t.Errorf("docs/adr/README.md has no row, or several, that begins with %s", row)
		}
	}
}

// partsOf returns the addresses of the parts of a page.
func partsOf(text string) []string {
	var parts []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		part := strings.ReplaceAll(strings.ToLower(notSaid.ReplaceAllString(m[1], "")), " ", "-")
		parts = append(parts, part)
	}
	return parts
}

// documents lists the pages at the top and those in docs, from the module's folder. Decisions (docs/adr) are left out:
// they tell how things were when they were made.
func documents(t *testing.T) []string {
	t.Helper()
	docs := append(files(t, "*.md"), files(t, "docs/*/*.md")...)
	return slices.DeleteFunc(docs, func(path string) bool { return filepath.Base(filepath.Dir(path)) == "adr" })
}

// files lists files by a pattern, from the module's folder.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(top(t), filepath.FromSlash(pattern)))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range found {
		found[i], err = filepath.Rel(top(t), path)
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// page returns the text of a file, named from the module's folder.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
