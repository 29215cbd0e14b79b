package web

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The most that a browser has to load, compressed: for the first thing that it shows, and in all.
const (
	mostAtFirst = 40 << 10
	mostInAll   = 68 << 10
)

// sizes returns the compressed size of each file of the page.
func sizes(t *testing.T) map[string]int {
	t.Helper()
	files, err := fs.ReadDir(dist, "dist")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, f := range files {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(content(t, f.Name())) // a buffer takes all
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = b.Len()
	}
	return all
}

func content(t *testing.T, name string) []byte {
	t.Helper()
	text, err := fs.ReadFile(dist, "dist/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// imports finds the files that a file needs before it can run, and those that the page names.
var imports = regexp.MustCompile(`(?:from|import)"\./([^"]+)"|/ui/([^"]+)"`)

// TestSizes checks that the page is light: what the first view needs, and all of it.
func TestSizes(t *testing.T) {
	all := sizes(t)
	sum := 0
	for _, n := range all {
		sum += n
	}
	if sum > mostInAll {
		t.Errorf("all files have %d bytes, at most %d are wanted", sum, mostInAll)
	}
	first, seen := 0, map[string]bool{}
	for next := []string{"index.html"}; len(next) > 0; next = next[1:] {
		name := next[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		first += all[name]
		for _, m := range imports.FindAllStringSubmatch(string(content(t, name)), -1) {
			next = append(next, m[1]+m[2])
		}
	}
	if len(seen) < 4 || first > mostAtFirst { // the page, its style, its script and a part of that
		t.Errorf("%d files are needed at first, with %d bytes; at most %d are wanted", len(seen), first, mostAtFirst)
	}
	t.Logf("%d bytes at first, %d in all", first, sum)
}

// TestFilesAreKept checks that a browser keeps the files whose names have a hash, and asks for the page itself anew.
func TestFilesAreKept(t *testing.T) {
	mux := http.NewServeMux()
	Routes(func(pattern string, answer http.HandlerFunc) { mux.HandleFunc(pattern, answer) })
	for path, want := range map[string]string{"/": "", "/run/r": "", "/ui/nothing.js": ""} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Header().Get("Cache-Control"); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	for name := range sizes(t) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/"+name, nil))
		kept := strings.Contains(w.Header().Get("Cache-Control"), "immutable")
		if w.Code == http.StatusOK && kept != strings.Contains(name, "-") {
			t.Errorf("%s: %q", name, w.Header().Get("Cache-Control"))
		}
	}
}
