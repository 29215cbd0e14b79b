package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawl-dev/pawl"

// A room is one row of ARCHITECTURE.md's table: a package with everything below it that is not a room of its own.
type room struct {
	imports []string // rooms; what those may import is allowed as well, since imports run downwards
	all     bool     // wiring and measuring: may import every room
}

// root is the name of the room of the module's own package.
const root = "."

// pure are the rooms that import a small part of the standard library and nothing from outside.
var pure = []string{"duration", "policy", "internal/nearest", "internal/decode", "internal/heap", "internal/core"}

// notPure are the standard packages, with everything below them, that a pure room may not import: they hold a clock's
// cousin, a goroutine's tool, a device or a dice.
var notPure = []string{
	"context", "crypto/rand", "database", "io/fs", "io/ioutil", "log", "math/rand", "net", "os", "path/filepath",
	"plugin", "runtime", "sync", "syscall", "testing", "text/template", "html/template", "unsafe",
}

// drivers are the modules that speak to a database. What links one has chosen a journal.
var drivers = []string{
	"github.com/jackc/pgx", "github.com/lib/pq", "github.com/mattn/go-sqlite3", "github.com/ncruces/go-sqlite3",
	"modernc.org/sqlite", "zombiezen.com/go/sqlite",
}

// mayLinkDriver are the rooms that choose a journal or are one.
var mayLinkDriver = []string{
	"internal/journal/sqlite", "internal/journal/postgres", "journal/sqlite", "journal/postgres", "cmd/pawl",
	"internal/bench", "internal/conformance", "internal/disktest", "internal/pgtest", "examples",
}

// adapters never import each other: what two of them share lives in a package beside them.
var adapters = []string{"internal/journal/memory", "internal/journal/postgres", "internal/journal/sqlite"}

// A pkg is what `go list` tells about one package.
type pkg struct {
	ImportPath string
	Imports    []string // direct, without tests
	Deps       []string // all, without tests
	Standard   bool
}

// TestRooms holds the imports against the table, and the table against the imports: a room that is listed without being
// imported is a door nobody uses, and the next one who goes through it is not noticed.
func TestRooms(t *testing.T) {
	packages, h := list(t), house(t)
	used := map[string]bool{} // rooms, and "room imports room"
	for _, p := range packages {
		name := h.roomOf(p.ImportPath)
		r, known := h[name]
		if !known {
			t.Errorf("%s is in no room: give it a row in ARCHITECTURE.md", p.ImportPath)
			continue
		}
		used[name] = true
		for _, imported := range p.Imports {
			used[name+" imports "+h.roomOf(imported)] = true
		}
		allowed := h.below(name)
		for _, dep := range p.Deps {
			if r.all || !inModule(dep) || slices.Contains(allowed, h.roomOf(dep)) {
				continue
			}
			t.Errorf("%s links %s (%s): room %s may import %s", p.ImportPath, dep, via(packages, p, dep), name,
				strings.Join(allowed, ", "))
		}
	}
	for name, r := range h {
		if !used[name] {
			t.Errorf("ARCHITECTURE.md has a row for %s, where no package is", name)
			continue
		}
		for _, next := range r.imports {
			if !used[name+" imports "+next] {
				t.Errorf("ARCHITECTURE.md says that %s may import %s, and nothing in it does", name, next)
			}
		}
	}
}

func TestPureRooms(t *testing.T) {
	h := house(t)
	for _, p := range list(t) {
		if !slices.Contains(pure, h.roomOf(p.ImportPath)) {
			continue
		}
		for _, imported := range p.Imports {
			switch {
			case slices.ContainsFunc(notPure, func(bad string) bool { return within(imported, bad) }):
				t.Errorf("%s imports %s: it is pure, what it needs arrives as an argument", p.ImportPath, imported)
			case inModule(imported) && !slices.Contains(pure, h.roomOf(imported)):
				t.Errorf("%s imports %s: a pure room imports pure rooms only", p.ImportPath, imported)
			case !inModule(imported) && strings.Contains(strings.Split(imported, "/")[0], "."):
				t.Errorf("%s imports %s: a pure room needs nothing from outside", p.ImportPath, imported)
			}
		}
	}
}

func TestDrivers(t *testing.T) {
	h := house(t)
	for _, p := range list(t) {
		if slices.Contains(mayLinkDriver, h.roomOf(p.ImportPath)) {
			continue
		}
		for _, dep := range p.Deps {
			if slices.ContainsFunc(drivers, func(d string) bool { return within(dep, d) }) {
				t.Errorf("%s links the database driver %s: only a journal and whoever chooses one may", p.ImportPath,
					dep)
			}
		}
	}
}

// flowLibraries are what flows need, to be read and for their steps. A program without flows pays for none of them.
var flowLibraries = []string{
	"github.com/goccy/go-yaml", "github.com/expr-lang/expr", "github.com/santhosh-tekuri/jsonschema", "net/http",
}

// TestProgramsWithoutFlows: a Go program that imports the root and a journal links nothing that only flows need.
func TestProgramsWithoutFlows(t *testing.T) {
	for _, p := range list(t) {
		if p.ImportPath != module && p.ImportPath != module+"/journal/sqlite" {
			continue
		}
		for _, dep := range p.Deps {
			if slices.ContainsFunc(flowLibraries, func(library string) bool { return within(dep, library) }) {
				t.Errorf("%s links %s: what runs flows is for package pawlflow", p.ImportPath, dep)
			}
		}
	}
}

func TestAdaptersDoNotImportEachOther(t *testing.T) {
	h := house(t)
	for _, p := range list(t) {
		name := h.roomOf(p.ImportPath)
		if !slices.Contains(adapters, name) {
			continue
		}
		for _, dep := range p.Deps {
			if other := h.roomOf(dep); inModule(dep) && other != name && slices.Contains(adapters, other) {
				t.Errorf("%s links %s: journals know the seam, not each other", p.ImportPath, dep)
			}
		}
	}
}

func TestTableOfRoomsRunsDownwards(t *testing.T) {
	h := house(t)
	for name, r := range h {
		for _, next := range r.imports {
			if _, known := h[next]; !known {
				t.Errorf("room %s may import %s, which is no room", name, next)
			}
			if slices.Contains(h.below(next), name) {
				t.Errorf("rooms %s and %s may import each other", name, next)
			}
		}
	}
}

// list returns the module's own packages. A package that does not build yet is listed with what is known about it.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,Deps,Standard", "./...")
	cmd.Dir = top(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatal("go list found no package")
	}
	return packages
}

// top returns the module's folder.
func top(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// rooms are the rows of the table by their names.
type rooms map[string]room

// row is a row of the table: the rooms in the first cell, what they may import in the last.
var row = regexp.MustCompile(`^\| (.*` + "`" + `.*) \| .* \| (.*) \|$`)

// house reads the table of rooms.
func house(t *testing.T) rooms {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Rooms\n")
	table, _, ended := strings.Cut(table, "\n## ")
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no part about rooms")
	}
	h := rooms{}
	for line := range strings.Lines(table) {
		cells := row.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil {
			continue
		}
		r := room{all: cells[2] == "all"}
		if !r.all && cells[2] != "–" {
			r.imports = strings.Split(cells[2], ", ")
		}
		for i, name := range r.imports {
			if name == "the root" {
				r.imports[i] = root
			}
		}
		for name := range strings.SplitSeq(strings.ReplaceAll(cells[1], "`", ""), ", ") {
			if name == "the root" {
				name = root
			}
			if _, twice := h[name]; twice {
				t.Errorf("ARCHITECTURE.md lists the room %s twice", name)
			}
			h[name] = r
		}
	}
	if len(h) == 0 {
		t.Fatal("ARCHITECTURE.md's table of rooms has no rows")
	}
	return h
}

// roomOf returns the longest room that holds the import path, or its path below the module when there is none.
func (h rooms) roomOf(importPath string) string {
	if importPath == module {
		return root
	}
	path := strings.TrimPrefix(importPath, module+"/")
	for name := path; name != "."; name = filepath.ToSlash(filepath.Dir(name)) {
		if _, known := h[name]; known {
			return name
		}
	}
	return path
}

// below returns the room with all the rooms it may import, straight or through another.
func (h rooms) below(name string) []string {
	found := []string{name}
	for i := 0; i < len(found); i++ {
		for _, next := range h[found[i]].imports {
			if !slices.Contains(found, next) {
				found = append(found, next)
			}
		}
	}
	return found
}

// via names the import of p through which dep is linked.
func via(packages []pkg, p pkg, dep string) string {
	if slices.Contains(p.Imports, dep) {
		return "a direct import"
	}
	for _, imported := range p.Imports {
		i := slices.IndexFunc(packages, func(q pkg) bool { return q.ImportPath == imported })
		if i >= 0 && slices.Contains(packages[i].Deps, dep) {
			return "through " + imported
		}
	}
	return "through another package"
}

func inModule(importPath string) bool { return within(importPath, module) }

func within(importPath, prefix string) bool {
	return importPath == prefix || strings.HasPrefix(importPath, prefix+"/")
}
