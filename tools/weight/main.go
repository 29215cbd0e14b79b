// Command weight tells what each part of the pawl binary costs: processor seconds of its compilation from nothing, and
// bytes of the program. A part's cost is that of all packages which the build would not have without it.
//
//	go run ./tools/weight          # the table of docs/reference/weight.md
//	go run ./tools/weight -check   # fails if the build of README's first command has become heavier
//
// Seconds differ between machines, so the check compares with what the standard library needs in the same build.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	program = "github.com/pawl-dev/pawl/cmd/pawl"
	// most is how many times the processor time of the standard library the build with -tags small may need. Raise it
	// in the commit that adds the weight, and say there why.
	most = 4.2
)

// parts are the rows of the table, by the packages whose imports are cut. -tags small leaves the first five out.
var parts = []struct {
	name string
	cut  []string // prefixes of import paths
}{
	{"Temporal's protocol", []string{"github.com/pawl-dev/pawl/internal/temporal"}},
	{"PostgreSQL", []string{"github.com/pawl-dev/pawl/internal/journal/postgres"}},
	{"S3", []string{"github.com/pawl-dev/pawl/internal/artifact/s3"}},
	{"OpenTelemetry", []string{"github.com/pawl-dev/pawl/internal/otlp"}},
	{"Prometheus", []string{"github.com/pawl-dev/pawl/internal/metrics"}},
	{"all five", []string{
		"github.com/pawl-dev/pawl/internal/temporal", "github.com/pawl-dev/pawl/internal/journal/postgres",
		"github.com/pawl-dev/pawl/internal/artifact/s3", "github.com/pawl-dev/pawl/internal/otlp",
		"github.com/pawl-dev/pawl/internal/metrics",
	}},
	{"SQLite", []string{"github.com/pawl-dev/pawl/internal/journal/sqlite"}},
	{"the HTTP API", []string{"github.com/pawl-dev/pawl/internal/server"}},
	{"sign-in (OIDC)", []string{"github.com/pawl-dev/pawl/internal/issuer"}},
	{"the live view", []string{"github.com/pawl-dev/pawl/cmd/pawl/internal/live"}},
	{"expressions", []string{"github.com/expr-lang/expr"}},
	{"mail", []string{"github.com/pawl-dev/pawl/internal/worker/mail"}},
}

func main() {
	check := flag.Bool("check", false, "build with -tags small alone, and fail if that has become heavier")
	flag.Parse()
	run := table
	if *check {
		run = ratchet
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "weight:", err)
		os.Exit(1)
	}
}

// action is a line of the build's graph of actions.
type action struct {
	Mode    string
	Package string
	CmdUser time.Duration
	CmdSys  time.Duration
}

// weighed is a build from nothing.
type weighed struct {
	seconds map[string]float64  // processor time of each package
	imports map[string][]string // direct imports
	sizes   map[string]int64    // bytes of each package in the program
	link    float64
}

// weigh builds the program in an empty cache, one package after the other.
func weigh(tags string) (w weighed, err error) {
	dir, err := os.MkdirTemp("", "weight")
	if err != nil {
		return w, err
	}
	defer os.RemoveAll(dir)
	graph, out := filepath.Join(dir, "graph"), filepath.Join(dir, "pawl")
	environ := append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	build := exec.Command("go", "build", "-p", "1", "-tags", tags, "-debug-actiongraph", graph, "-o", out, program)
	build.Env, build.Stderr = environ, os.Stderr
	if err := build.Run(); err != nil {
		return w, err
	}
	text, err := os.ReadFile(graph)
	if err != nil {
		return w, err
	}
	var actions []action
	if err := json.Unmarshal(text, &actions); err != nil {
		return w, err
	}
	w.seconds = map[string]float64{}
	for _, a := range actions {
		if a.Mode == "link" {
			w.link += (a.CmdUser + a.CmdSys).Seconds()
		} else {
			w.seconds[a.Package] += (a.CmdUser + a.CmdSys).Seconds()
		}
	}
	if w.imports, err = imports(tags, environ); err != nil {
		return w, err
	}
	w.sizes, err = sizes(out)
	return w, err
}

// imports returns the direct imports of each package of the program.
func imports(tags string, environ []string) (map[string][]string, error) {
	form := `{{.ImportPath}} {{join .Imports " "}}`
	list := exec.Command("go", "list", "-deps", "-tags", tags, "-f", form, program)
	list.Env, list.Stderr = environ, os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 {
			all[words[0]] = words[1:]
		}
	}
	return all, nil
}

// sizes returns the bytes that the symbols of each package have in a program.
func sizes(program string) (map[string]int64, error) {
	text, err := exec.Command("go", "tool", "nm", "-size", program).Output()
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 4 || words[2] == "B" || words[2] == "b" { // these take no room in the file
			continue
		}
		size, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			continue
		}
		all[packageOf(words[3])] += size
	}
	return all, nil
}

// packageOf returns the import path in the name of a symbol: github.com/a/b.(*T).M belongs to github.com/a/b.
func packageOf(symbol string) string {
	symbol = strings.TrimPrefix(strings.TrimPrefix(symbol, "type:"), ".eq.")
	symbol, _, _ = strings.Cut(symbol, "[")
	slash := strings.LastIndex(symbol, "/") + 1
	if dot := strings.Index(symbol[slash:], "."); dot >= 0 {
		return symbol[:slash+dot]
	}
	return symbol
}

// without returns the packages that remain where some are left out.
func (w weighed) without(cut []string) map[string]bool {
	left := map[string]bool{}
	var visit func(string)
	visit = func(path string) {
		out := slices.ContainsFunc(cut, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
		if left[path] || out {
			return
		}
		left[path] = true
		for _, next := range w.imports[path] {
			visit(next)
		}
	}
	visit(program)
	return left
}

// cost returns what the packages that are not left cost.
func (w weighed) cost(left map[string]bool) (seconds float64, bytes int64, packages int) {
	for path := range w.imports {
		if !left[path] {
			seconds, bytes, packages = seconds+w.seconds[path], bytes+w.sizes[path], packages+1
		}
	}
	return seconds, bytes, packages
}

// standard returns the processor time of the standard library.
func (w weighed) standard() (seconds float64) {
	for path, s := range w.seconds {
		if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
			seconds += s
		}
	}
	return seconds
}

func table() error {
	w, err := weigh("")
	if err != nil {
		return err
	}
	seconds, bytes, packages := w.cost(nil)
	fmt.Println("| part | processor seconds | MB of the program | packages |\n|---|---|---|---|")
	row := func(name string, seconds float64, bytes int64, packages int) {
		fmt.Printf("| %s | %.1f | %.1f | %d |\n", name, seconds, float64(bytes)/1e6, packages)
	}
	row("all, without linking", seconds, bytes, packages)
	row("linking", w.link, 0, 0)
	row("the standard library", w.standard(), 0, 0)
	own := 0.0
	for path, s := range w.seconds {
		if strings.HasPrefix(path, "github.com/pawl-dev/") {
			own += s
		}
	}
	row("Pawl's own packages", own, 0, 0)
	for _, p := range parts {
		seconds, bytes, packages := w.cost(w.without(p.cut))
		row(p.name, seconds, bytes, packages)
	}
	fmt.Println("\nThe ten packages that take longest:")
	slowest := slices.SortedFunc(maps.Keys(w.seconds), func(a, b string) int {
		return cmp.Compare(w.seconds[b], w.seconds[a])
	})
	for _, path := range slowest[:10] {
		fmt.Printf("- %s: %.1f s\n", path, w.seconds[path])
	}
	return nil
}

func ratchet() error {
	w, err := weigh("small")
	if err != nil {
		return err
	}
	seconds, _, _ := w.cost(nil)
	ratio := seconds / w.standard()
	fmt.Printf("README's first command compiles %.1f processor seconds, %.2f times the standard library (of %.2f)\n",
		seconds, ratio, most)
	if ratio > most {
		return fmt.Errorf("%.2f is more than %.2f: leave the part out with -tags small, or say why the limit is raised",
			ratio, most)
	}
	return nil
}
