package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawl-dev/pawl"

// A room is a package with everything below it that is not a room of its own.
type room struct {
	name  string
	layer *layer
	below []string // itself and the rooms of its layer that stand before it
}

// A layer is one part of layers.txt: the rooms in their order, and the names of the layers that they use.
type layer struct {
	name, about string
	uses        []string
	rooms       []string
}

// root is the name of the room of the module's own package.
const root = "."

// pure are the rooms that import a small part of the standard library and nothing from outside.
var pure = []string{
	"duration", "policy", "internal/nearest", "internal/decode", "internal/heap", "internal/judge",
	"internal/core", "internal/naming",
}

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
	"internal/daemon/database", "tools/bench", "internal/conformance", "internal/disktest", "internal/pgtest",
	"examples",
}

// adapters never import each other: what two of them share lives in a package beside them.
var adapters = []string{"internal/journal/memory", "internal/journal/postgres", "internal/journal/sqlite"}

// A pkg is what `go list` tells about one package.
type pkg struct {
	ImportPath string
	Imports    []string // direct, without tests
	Deps       []string // all, without tests
	Doc        string   // first sentence of the package's comment
}

// TestRooms holds the imports against the layers, and the layers against the imports: a layer that is named without
// being used is a door nobody uses, and the next one who goes through it is not noticed.
func TestRooms(t *testing.T) {
	packages, h := list(t), house(t)
	used := map[string]bool{} // rooms, and "layer uses layer"
	for _, p := range packages {
		r := h.rooms[h.roomOf(p.ImportPath)]
		if r == nil {
			t.Errorf("%s is in no room: give it a place in internal/house/layers.txt", p.ImportPath)
			continue
		}
		used[r.name] = true
		for _, imported := range p.Imports {
			if other := h.rooms[h.roomOf(imported)]; other != nil {
				used[r.layer.name+" uses "+other.layer.name] = true
			}
		}
		allowed := h.below(r)
		for _, dep := range p.Deps {
			if inModule(dep) && !slices.Contains(allowed, h.roomOf(dep)) {
				t.Errorf("%s links %s (%s), which is not below it: room %s is in layer %s", p.ImportPath, dep,
					via(packages, p, dep), r.name, r.layer.name)
			}
		}
	}
	for name := range h.rooms {
		if !used[name] {
			t.Errorf("layers.txt has the room %s, where no package is", name)
		}
	}
	for _, l := range h.layers {
		for _, next := range l.uses {
			if !used[l.name+" uses "+next] {
				t.Errorf("layers.txt says that layer %s uses %s, and nothing in it does", l.name, next)
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

// TestProgramsWithoutFlows checks that a Go program that imports the root and a journal links nothing that only flows
// need.
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

// list returns the module's own packages. A package that does not build yet is listed with what is known about it.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,Deps,Doc", "./...")
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

// rooms are the layers, lowest first, and their rooms by name.
type rooms struct {
	layers []*layer
	rooms  map[string]*room
}

// house reads the layers. Each names layers before it, so imports run downwards.
func house(t *testing.T) rooms {
	t.Helper()
	text, err := os.ReadFile("layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	h := rooms{rooms: map[string]*room{}}
	known := map[string]bool{}
	for part := range strings.SplitSeq(string(text), "\n\n") {
		if strings.HasPrefix(part, "#") {
			continue
		}
		head, tail, _ := strings.Cut(part, "\n")
		uses, names, _ := strings.Cut(tail, "\n")
		l := &layer{rooms: strings.Fields(names)}
		var found, marked bool
		l.name, l.about, found = strings.Cut(head, ": ")
		uses, marked = strings.CutPrefix(uses, "uses:")
		if !found || !marked || len(l.rooms) == 0 {
			t.Fatalf("layers.txt: a layer is a line of its name, one of what it uses, and its rooms:\n%s", part)
		}
		l.uses = strings.Fields(uses)
		for _, next := range l.uses {
			if !known[next] {
				t.Errorf("layers.txt: layer %s uses %s, which is no layer before it", l.name, next)
			}
		}
		for i, name := range l.rooms {
			if h.rooms[name] != nil {
				t.Errorf("layers.txt has the room %s twice", name)
			}
			h.rooms[name] = &room{name: name, layer: l, below: l.rooms[:i+1]}
		}
		known[l.name] = true
		h.layers = append(h.layers, l)
	}
	if len(h.layers) == 0 {
		t.Fatal("layers.txt has no layers")
	}
	return h
}

// roomOf returns the longest room that holds the import path, or its path below the module when there is none.
func (h rooms) roomOf(importPath string) string {
	if importPath == module {
		return root
	}
	full := strings.TrimPrefix(importPath, module+"/")
	for name := full; name != root; name = path.Dir(name) {
		if h.rooms[name] != nil {
			return name
		}
	}
	return full
}

// below returns the room with all the rooms it may import, straight or through another.
func (h rooms) below(r *room) []string {
	allowed := slices.Clone(r.below)
	open := slices.Clone(r.layer.uses)
	for _, l := range slices.Backward(h.layers) {
		if slices.Contains(open, l.name) {
			allowed = append(allowed, l.rooms...)
			open = append(open, l.uses...)
		}
	}
	return allowed
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
