package web

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// TestHTTPRedirectKeepsSecrets checks that a redirect to another host takes no secret there, neither in a header nor
// with the URL; one on the same host takes the headers along.
func TestHTTPRedirectKeepsSecrets(t *testing.T) {
	var got http.Header
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/end", http.StatusFound)
		default:
			got = r.Header
		}
	})
	store := secret.StoreOf(func(context.Context, string) (string, error) { return "hunter2hunter2", nil })
	h := NewHTTP(HTTPConfig{Secrets: func(*core.Task) *secret.Store { return store }})
	t.Cleanup(func() { _ = h.Close() })
	mark := secret.Mark("01")
	hidden := secret.Placeholder(mark, secret.OfSecret, "token")
	for path, kept := range map[string]bool{"/away": false, "/here": true} {
		got = nil
		res := h.Execute(t.Context(), new(httpTask(t, map[string]any{
			"url": s.URL + path + "?key=" + hidden, "placeholders": secret.Placeholders{Mark: mark},
			"headers": map[string]string{"x-api-key": hidden, "X-Plain": "1"},
		})), workertest.NewSigns())
		if res.Failure != nil || (got.Get("X-Api-Key") != "") != kept || got.Get("Referer") != "" ||
			got.Get("X-Plain") != "1" {
			t.Errorf("%s: %v, %v", path, got, res.Failure)
		}
	}
}

// TestHTTPRedirectKeepsSecretBodies checks that a redirect to another host that keeps the method takes no body with a
// secret there. One on the same host does, and so does one of a body without a secret.
func TestHTTPRedirectKeepsSecretBodies(t *testing.T) {
	var got []string
	note := func(r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got = append(got, string(text))
	}
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { note(r) })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
		default:
			note(r)
		}
	})
	store := secret.StoreOf(func(context.Context, string) (string, error) { return "hunter2hunter2", nil })
	h := NewHTTP(HTTPConfig{Secrets: func(*core.Task) *secret.Store { return store }})
	t.Cleanup(func() { _ = h.Close() })
	mark := secret.Mark("01")
	hidden := secret.Placeholder(mark, secret.OfSecret, "token")
	for _, c := range []struct {
		path, field, text string
		arrives           bool
	}{
		{"/away", "body", hidden, false},
		{"/away", "json", hidden, false},
		{"/here", "json", hidden, true},
		{"/away", "body", "plain", true},
	} {
		got = nil
		res := h.Execute(t.Context(), new(httpTask(t, map[string]any{
			"url": s.URL + c.path, "placeholders": secret.Placeholders{Mark: mark}, c.field: c.text,
		})), workertest.NewSigns())
		if (len(got) == 1) != c.arrives || (res.Failure == nil) != c.arrives {
			t.Errorf("%s with %s: %q, %v", c.path, c.field, got, res.Failure)
		}
		if !c.arrives {
			workertest.WantFailure(t, res.Failure, policy.KindFailed, "redirect")
		}
	}
}

// TestHTTPKeepsQuery checks that the query of the URL arrives as it is written, also where more is added to it.
func TestHTTPKeepsQuery(t *testing.T) {
	var query, method string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { query, method = r.URL.RawQuery, r.Method })
	h := newTestHTTP(t)
	for given, want := range map[string]string{
		"": "page=2", "?z=1;a&flag&x=%7e": "z=1;a&flag&x=%7e&page=2", "?q=a b\u00e9": "q=a%20b%C3%A9&page=2",
	} {
		task := httpTask(t, map[string]any{"url": s.URL + "/" + given, "query": map[string]any{"page": "2"}})
		if res := h.Execute(t.Context(), &task, workertest.NewSigns()); res.Failure != nil || query != want {
			t.Errorf("%s became %s, %v", given, query, res.Failure)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.csv")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	task := httpTask(t, map[string]any{"url": s.URL, "file": empty})
	if res := h.Execute(t.Context(), &task, workertest.NewSigns()); res.Failure != nil || method != http.MethodPost {
		t.Errorf("an empty file is sent with %s, %v", method, res.Failure)
	}
}
