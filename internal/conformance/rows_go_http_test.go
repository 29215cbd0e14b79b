package conformance

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/pawlhttp"
	"github.com/pawl-dev/pawl/pawltest"
)

// notOverHTTP are the rows that no client is in: Z3 waits for a thousand days, and each half minute of that would be a
// request.
var notOverHTTP = []string{"Z3"}

// TestGoOverHTTP runs the rows of Go workflows again, with a client of a server in the place of the engine.
func TestGoOverHTTP(t *testing.T) {
	before := goClient
	t.Cleanup(func() { goClient = before })
	goClient = connected
	for _, id := range slices.Sorted(maps.Keys(goRows)) {
		if slices.Contains(notOverHTTP, id) {
			continue
		}
		t.Run(id, func(t *testing.T) {
			for _, test := range goRows[id] {
				test(t)
			}
		})
	}
}

// connected returns a client of a server that serves the engine of a test.
func connected(t *testing.T, e *pawltest.Env) pawl.Client {
	t.Helper()
	at := memnet.Listen()
	served := &http.Server{Handler: pawlhttp.Handler(e.Engine, nil)}
	over := make(chan error)
	go func() { over <- served.Serve(at) }()
	through := &http.Transport{DialContext: at.Dial}
	c, err := pawlhttp.Connect("http://127.0.0.1:7295", pawlhttp.Access{Transport: through}, pawl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = served.Close()
		<-over
	})
	return c
}
