package conformance

import (
	"net/http"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// shortEver is for ever where each half minute of virtual time, or each few seconds, costs a request.
const shortEver = 24 * time.Hour

// TestGoOverHTTP runs the rows of Go workflows again, with a client of a server in the place of the engine.
func TestGoOverHTTP(t *testing.T) {
	before, ever := goClient, forEver
	t.Cleanup(func() { goClient, forEver = before, ever })
	goClient, forEver = connected, shortEver
	eachGoRow(t)
}

// connected returns a client of a server that serves the engine of a test.
func connected(t *testing.T, e goProgram) pawl.Client {
	t.Helper()
	at := memnet.Listen()
	served := &http.Server{Handler: pawlhttp.Handler(e.(embedded).Engine, nil)}
	over := make(chan error)
	go func() { over <- served.Serve(at) }()
	through := &http.Transport{DialContext: at.Dial}
	c, err := pawlhttp.Connect("http://127.0.0.1:7295", pawlhttp.ClientConfig{Transport: through})
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
