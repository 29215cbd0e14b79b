package web

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

// The most that a browser has to load, as it is sent: for the first thing that it shows, and in all.
const (
	mostAtFirst = 40 << 10
	mostInAll   = 60_000
)

// sizes returns the size of each file of the page, compressed where it is.
func sizes(t *testing.T) map[string]int {
	t.Helper()
	files, err := fs.ReadDir(dist, "dist")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, f := range files {
		if name := f.Name(); !strings.HasSuffix(name, packed) {
			all[name] = len(content(t, name))
		}
	}
	for name := range all {
		if name != "index.html" {
			all[name] = len(content(t, name+packed))
		}
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
	if len(seen) < 3 || first > mostAtFirst { // the page, its style and its script
		t.Errorf("%d files are needed at first, with %d bytes; at most %d are wanted", len(seen), first, mostAtFirst)
	}
	t.Logf("%d bytes at first, %d in all", first, sum)
}

// TestPackedFiles checks that a browser gets the scripts and styles compressed, which are the ones that others get.
func TestPackedFiles(t *testing.T) {
	mux := http.NewServeMux()
	Routes(func(pattern string, answer http.HandlerFunc) { mux.HandleFunc(pattern, answer) })
	for name := range sizes(t) {
		if name == "index.html" {
			continue
		}
		for accepts, want := range map[string]string{"gzip, deflate, br, zstd": "br", "br;q=0, gzip": "", "": ""} {
			r := httptest.NewRequest(http.MethodGet, "/ui/"+name, nil)
			r.Header.Set("Accept-Encoding", accepts)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if got := w.Header().Get("Content-Encoding"); got != want || w.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s for %q: encoded as %q, %v", name, accepts, got, w.Header())
			}
			if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/") {
				t.Errorf("%s for %q: it is %q", name, accepts, kind)
			}
			text := w.Body.Bytes()
			if want == "br" {
				var err error
				if text, err = io.ReadAll(brotli.NewReader(w.Body)); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(text, content(t, name)) {
				t.Errorf("%s for %q is another one", name, accepts)
			}
		}
	}
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
