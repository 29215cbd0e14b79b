package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// direct is a transport that calls the server's code, so that no network stops the virtual time.
type direct struct{ server http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestQuotes checks that a hundred runs get their quotes, that the API gets no more calls than it takes, and that few
// runs try it while it is down.
func TestQuotes(t *testing.T) {
	var log bytes.Buffer
	server := &api{log: &log, rate: 20}
	w := (&quotes{&http.Client{Transport: direct{server}}, "http://quotes.example"}).workflow()
	cfg := pawl.Config{Workflows: []pawl.Definition{w}, Services: limits(server.rate)}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		begin := time.Now()
		var runs []pawl.Run[string]
		for item := range 100 {
			r, err := w.Start(t.Context(), e, "", item)
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, r)
		}
		for _, r := range runs {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took < 5*time.Second || took > 12*time.Second {
			t.Errorf("it took %s", took)
		}
		ok, down := strings.Count(log.String(), " 200"), strings.Count(log.String(), " 503")
		if busy := strings.Count(log.String(), " 429"); ok != 100 || busy != 0 || down == 0 || down > 15 {
			t.Errorf("%d answers, %d times too many requests, %d times down", ok, busy, down)
		}
	})
}
