package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawl-dev/pawl"

// A room is one row of ARCHITECTURE.md's table: a package with everything below it that is not a room of its own.
type room struct {
	mayImport []string // rooms; what those may import is allowed as well, since imports run downwards
	all       bool     // wiring and measuring: may import every room
	pure      bool     // a small part of the standard library and nothing from outside
}

// root is the name of the room of the module's own package.
const root = "."

var rooms = map[string]room{
	"duration":            {pure: true},
	"policy":              {mayImport: []string{"duration"}, pure: true},
	"core":                {mayImport: []string{"policy"}, pure: true},
	"flow":                {mayImport: []string{"policy", "core"}},
	"dialect":             {mayImport: []string{"policy", "flow"}},
	"journal":             {mayImport: []string{"core"}},
	"journal/journaltest": {mayImport: []string{"journal", "core"}},
	"journal/memory":      {mayImport: []string{"journal", "core"}},
	"journal/sqlite":      {mayImport: []string{"journal", "core"}},
	"journal/postgres":    {mayImport: []string{"journal", "core"}},
	"engine":              {mayImport: []string{"core", "policy", "flow", "journal"}},
	"worker":              {mayImport: []string{"core", "policy"}},
	"sim":                 {mayImport: []string{"engine", "journal/memory", "core"}},
	root:                  {mayImport: []string{"engine", "worker", "core", "policy", "duration"}},
	"pawltest":            {mayImport: []string{root, "journal/memory", "core"}},
	"api":                 {mayImport: []string{"core", "policy", "flow"}},
	"web":                 {},
	"cmd":                 {all: true},
	"bench":               {all: true},
	"conformance":         {all: true},
	"examples":            {all: true},
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
var mayLinkDriver = []string{"journal/sqlite", "journal/postgres", "cmd", "bench", "conformance", "examples"}

// adapters never import each other: what two of them share lives in a package beside them.
var adapters = []string{"journal/memory", "journal/sqlite", "journal/postgres"}

// A pkg is what `go list` tells about one package.
type pkg struct {
	ImportPath string
	Imports    []string // direct, without tests
	Deps       []string // all, without tests
	Standard   bool
}

func TestRooms(t *testing.T) {
	packages := list(t)
	for _, p := range packages {
		name := roomOf(p.ImportPath)
		if isInternal(p.ImportPath) {
			continue // judged through whoever links it
		}
		r, known := rooms[name]
		if !known {
			t.Errorf("%s is in no room: give it a row in ARCHITECTURE.md and in internal/house", p.ImportPath)
			continue
		}
		if r.all {
			continue
		}
		allowed := below(name)
		for _, dep := range p.Deps {
			if !inModule(dep) || isInternal(dep) || slices.Contains(allowed, roomOf(dep)) {
				continue
			}
			t.Errorf("%s links %s (%s): room %s may import %s", p.ImportPath, dep, via(packages, p, dep), name,
				strings.Join(allowed, ", "))
		}
	}
}

func TestPureRooms(t *testing.T) {
	packages := list(t)
	for _, p := range packages {
		if isInternal(p.ImportPath) || !rooms[roomOf(p.ImportPath)].pure {
			continue
		}
		for _, imported := range p.Imports {
			switch {
			case slices.ContainsFunc(notPure, func(bad string) bool { return within(imported, bad) }):
				t.Errorf("%s imports %s: it is pure, what it needs arrives as an argument", p.ImportPath, imported)
			case isInternal(imported):
				t.Errorf("%s imports %s: a pure room imports rooms only", p.ImportPath, imported)
			case !inModule(imported) && strings.Contains(strings.Split(imported, "/")[0], "."):
				t.Errorf("%s imports %s: a pure room needs nothing from outside", p.ImportPath, imported)
			}
		}
	}
}

func TestDrivers(t *testing.T) {
	for _, p := range list(t) {
		if isInternal(p.ImportPath) || slices.Contains(mayLinkDriver, roomOf(p.ImportPath)) {
			continue
		}
		for _, dep := range p.Deps {
			if slices.ContainsFunc(drivers, func(d string) bool { return within(dep, d) }) {
				t.Errorf("%s links the database driver %s: only a journal and whoever chooses one may", p.ImportPath, dep)
			}
		}
	}
}

func TestAdaptersDoNotImportEachOther(t *testing.T) {
	for _, p := range list(t) {
		name := roomOf(p.ImportPath)
		if !slices.Contains(adapters, name) {
			continue
		}
		for _, dep := range p.Deps {
			if other := roomOf(dep); inModule(dep) && other != name && slices.Contains(adapters, other) {
				t.Errorf("%s links %s: journals know the seam, not each other", p.ImportPath, dep)
			}
		}
	}
}

func TestTableOfRoomsRunsDownwards(t *testing.T) {
	for name := range rooms {
		for _, next := range rooms[name].mayImport {
			if _, known := rooms[next]; !known {
				t.Errorf("room %s may import %s, which is no room", name, next)
			}
			if slices.Contains(below(next), name) {
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

// roomOf returns the longest room that holds the import path, or its path below the module when there is none.
func roomOf(importPath string) string {
	if importPath == module {
		return root
	}
	path := strings.TrimPrefix(importPath, module+"/")
	for name := path; name != "."; name = filepath.ToSlash(filepath.Dir(name)) {
		if _, known := rooms[name]; known {
			return name
		}
	}
	return path
}

// below returns the room with all the rooms it may import, straight or through another.
func below(name string) []string {
	found := []string{name}
	for i := 0; i < len(found); i++ {
		for _, next := range rooms[found[i]].mayImport {
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

func isInternal(importPath string) bool { return within(importPath, module+"/internal") }

func within(importPath, prefix string) bool {
	return importPath == prefix || strings.HasPrefix(importPath, prefix+"/")
}
