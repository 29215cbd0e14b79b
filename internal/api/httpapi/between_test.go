package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// between returns the client of a server that stands behind a handler which answers by itself.
func between(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestRedirects checks that a redirect that would make a GET of a POST is told: the list of runs is no answer to a
// start. One that keeps the request is followed.
func TestRedirects(t *testing.T) {
	for status, followed := range map[int]bool{301: false, 302: false, 307: true, 308: true} {
		c := between(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/moved" {
				http.Redirect(w, r, "/moved", status)
				return
			}
			body, _ := io.ReadAll(r.Body)
			if r.Method == http.MethodPost && len(body) > 0 {
				_, _ = io.WriteString(w, `{"run":"r1"}`)
				return
			}
			_, _ = io.WriteString(w, `{"runs":[]}`)
		})
		started, err := c.Start(t.Context(), api.StartRequest{})
		switch {
		case followed && (err != nil || started.Run != "r1"):
			t.Errorf("%d: %+v, %v", status, started, err)
		case !followed && (api.CodeOf(err) != api.CodeInternal || !strings.Contains(err.Error(), "/moved")):
			t.Errorf("%d: %+v, %v", status, started, err)
		}
		if _, err := c.Runs(t.Context(), api.Query{Limit: 1}); err != nil {
			t.Errorf("%d: a list: %v", status, err)
		}
	}
}

// TestProxyTakesLess checks that a proxy that takes less than the server refuses a request for good: whoever sends it
// does not repeat it for ever.
func TestProxyTakesLess(t *testing.T) {
	c := between(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>Request Entity Too Large</html>", http.StatusRequestEntityTooLarge)
	})
	if _, err := c.Report(t.Context(), make([]api.TaskReport, 1)); api.CodeOf(err) != api.CodeTooLarge {
		t.Error(err)
	}
}
