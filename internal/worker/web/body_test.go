package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// signs counts signs of life.
type signs struct{ outputs atomic.Int64 }

func (s *signs) Output()          { s.outputs.Add(1) }
func (s *signs) Heartbeat([]byte) {}

func TestHTTPSendsFile(t *testing.T) {
	content := strings.Repeat("all work and no play ", 20_000)
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect) // the body is sent again
			return
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != content || r.ContentLength != int64(len(content)) {
			t.Errorf("%d of %d bytes arrived, announced %d: %v", len(got), len(content), r.ContentLength, err)
		}
		_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type"))
	}))
	defer server.Close()
	h := NewHTTP(HTTPConfig{})
	defer h.Close()
	alive := &signs{}
	payload, err := json.Marshal(HTTPPayload{URL: server.URL + "/old", File: path})
	if err != nil {
		t.Fatal(err)
	}
	res := h.Execute(context.Background(), &core.Task{Payload: payload}, alive)
	if res.Failure != nil {
		t.Fatal(res.Failure)
	}
	if !strings.Contains(string(res.Output), "POST application/gzip") {
		t.Errorf("the server saw %s", res.Output)
	}
	if alive.outputs.Load() < 3 {
		t.Errorf("%d signs of life from %d bytes sent", alive.outputs.Load(), len(content))
	}
}

func TestHTTPFileThatCannotBeSent(t *testing.T) {
	h := NewHTTP(HTTPConfig{})
	defer h.Close()
	for name, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "none"), "directory": t.TempDir()} {
		payload, err := json.Marshal(HTTPPayload{Method: "PUT", URL: "http://127.0.0.1:1/", File: path})
		if err != nil {
			t.Fatal(err)
		}
		res := h.Execute(context.Background(), &core.Task{Payload: payload}, &signs{})
		if f := res.Failure; f == nil || f.Kind != policy.KindFailed || f.Type != "file" ||
			!strings.Contains(f.Message, path) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
