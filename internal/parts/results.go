package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// module is the prefix that is removed from the names of packages.
const module = "github.com/pawl-dev/pawl"

// event is a line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // path of the built package
	Test       string // empty: the package
	Output     string
	Elapsed    float64 // seconds
}

// name returns the test or the package of an event.
func (e event) name() string {
	dir := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
	if dir == "" {
		dir = "."
	}
	return strings.TrimSpace(dir + " " + e.Test)
}

// timed is a test and how long it took.
type timed struct {
	name    string
	seconds float64
}

// results is the output of a go test.
type results struct {
	passed, skipped int      // tests at the top
	failed          []string // packages and tests
	tests           []timed  // tests at the top

	printed map[string][]string // the lines of each test that has not ended
}

// read reads the output of go test -json to its end, and shows packages and the output of failed tests.
func (r *results) read(told io.Reader, out io.Writer) {
	r.printed = map[string][]string{}
	lines := bufio.NewScanner(told)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(out, lines.Text()) // go test itself has a message
			continue
		}
		r.take(e, out)
	}
	_, _ = io.Copy(out, told) // the rest after a line that was too long: go test must not wait for a reader
}

// take takes one event.
func (r *results) take(e event, out io.Writer) {
	key := e.name()
	switch e.Action {
	case "output":
		r.printed[key] = append(r.printed[key], e.Output)
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "pass", "skip":
		r.ended(e, out)
		delete(r.printed, key)
	case "fail":
		r.failed = append(r.failed, key)
		r.show(key, out)
		for _, other := range slices.Sorted(maps.Keys(r.printed)) {
			if e.Test == "" && strings.HasPrefix(other, key+" ") {
				r.show(other, out) // the package has ended before its test: by a panic, or because its time was over
			}
		}
		r.ended(e, out)
	}
}

// show shows what a test or a package has printed.
func (r *results) show(key string, out io.Writer) {
	for _, line := range r.printed[key] {
		fmt.Fprint(out, line)
	}
	delete(r.printed, key)
}

// ended notes the end of a test or a package.
func (r *results) ended(e event, out io.Writer) {
	switch {
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(out, "ok   %6.1fs  %s\n", e.Elapsed, e.name())
	case e.Test == "" && e.Action == "fail":
		fmt.Fprintf(out, "FAIL %6.1fs  %s\n", e.Elapsed, e.name())
	case e.Test != "" && !strings.Contains(e.Test, "/"):
		r.tests = append(r.tests, timed{e.name(), e.Elapsed})
		switch e.Action {
		case "pass":
			r.passed++
		case "skip":
			r.skipped++
		}
	}
}

// slowest returns the n tests that took longest.
func (r *results) slowest(n int) []timed {
	slices.SortFunc(r.tests, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	return r.tests[:min(n, len(r.tests))]
}
