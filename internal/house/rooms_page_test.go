package house

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/design/rooms.md anew")

// TestRoomsPage checks that docs/design/rooms.md shows the layers, and of each room the first sentence of its package's
// comment and the rooms that it imports. A new import shows in the page's difference, so nobody adds one unseen.
func TestRoomsPage(t *testing.T) {
	page := filepath.Join(top(t), "docs", "design", "rooms.md")
	want := roomsPage(t)
	if *rewrite {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) == want {
		return
	}
	t.Error("docs/design/rooms.md is not what the packages say: go test ./internal/house -run TestRoomsPage -rewrite")
	have := strings.Split(string(got), "\n")
	for line := range strings.SplitSeq(want, "\n") {
		if !slices.Contains(have, line) {
			t.Errorf("not in the page: %s", line)
		}
	}
}

const roomsHead = `# Rooms

Written by a test from the comments of the packages and from [layers.txt](../../internal/house/layers.txt):
` + "`go test ./internal/house -run TestRoomsPage -rewrite`" + `. A room is a package with everything below it that
is not a room of its own. Imports go downwards only. The highest layer comes first.
`

func roomsPage(t *testing.T) string {
	t.Helper()
	h := house(t)
	about, imports := map[string]string{}, map[string][]string{}
	for _, p := range list(t) {
		name := h.roomOf(p.ImportPath)
		if strings.TrimPrefix(p.ImportPath, module+"/") == name || p.ImportPath == module {
			about[name] = p.Doc
		}
		for _, imported := range p.Imports {
			next := h.roomOf(imported)
			if inModule(imported) && next != name && !slices.Contains(imports[name], next) {
				imports[name] = append(imports[name], next)
			}
		}
	}
	var page strings.Builder
	page.WriteString(roomsHead)
	for _, l := range slices.Backward(h.layers) {
		uses := "nothing"
		if len(l.uses) > 0 {
			uses = strings.Join(l.uses, ", ")
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s. Uses %s.\n\n| room | what it is | imports |\n|---|---|---|\n", l.name,
			strings.ToUpper(l.about[:1])+l.about[1:], uses)
		for _, name := range slices.Backward(l.rooms) {
			if about[name] == "" {
				t.Errorf("room %s has no comment of its package, from which docs/design/rooms.md is written", name)
			}
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", shownRoom(name), sentence(about[name]),
				shownRooms(imports[name]))
		}
	}
	return page.String()
}

// sentence returns a package's synopsis without its subject: "Package core is the engine's …" is "the engine's …".
func sentence(doc string) string {
	words := strings.SplitN(doc, " ", 3)
	if len(words) < 3 || words[0] != "Package" && words[0] != "Command" {
		return doc
	}
	text := strings.TrimSuffix(strings.TrimPrefix(words[2], "is "), ".")
	return strings.NewReplacer("|", "\\|", "[", "", "]", "").Replace(text)
}

func shownRoom(name string) string {
	if name == root {
		return "pawl"
	}
	return name
}

func shownRooms(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = shownRoom(name)
	}
	slices.Sort(shown)
	return strings.Join(shown, ", ")
}
