package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

// TestHolderEndsMeanwhile checks that a command works with the database itself where the process that holds it says
// that it is there, and ends before it has answered a request.
func TestHolderEndsMeanwhile(t *testing.T) {
	t.Parallel()
	const quick = "pawl: 1\nname: quick\nsteps: [{name: work, noop: {}}]\n"
	for name, args := range map[string][]string{
		"resume": {"resume", "rests"},
		"run":    {"run", "quick.yaml", "--id", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "quick.yaml", quick)
			rest := command(t, dir, "run", "quick.yaml", "--id", "rests", "--detach")
			if out, err := rest.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			path := filepath.Join(dir, "state", "pawl", "pawl.db")
			j, err := sqlite.Open(path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := httpapi.ListenSocket(httpapi.SocketOf(path))
			if err != nil {
				t.Fatal(err)
			}
			holder := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/readyz" {
					if name == "run" { // it cannot be reached for the start
						_ = j.Close()
						_ = l.Close()
					}
					return
				}
				_ = j.Close()
				_ = l.Close()
				panic(http.ErrAbortHandler) // the connection ends without an answer
			})}
			holder.SetKeepAlivesEnabled(false)
			go func() { _ = holder.Serve(l) }()
			t.Cleanup(func() { _ = holder.Close() })
			out, err := command(t, dir, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "✓ quick") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
