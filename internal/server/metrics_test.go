package server

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// requests are metrics that keep what they are told.
type requests struct {
	mu  sync.Mutex
	all []string
}

func (m *requests) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("metrics 1\n"))
}

func (m *requests) Only(string) http.Handler { return m }

func (m *requests) Request(method, route string, status int, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, fmt.Sprintf("%s %q %d", method, route, status))
}

// TestRequestsAreCounted checks that a request, also a refused one, is counted by its route, and not by its path,
// which a caller chooses.
func TestRequestsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &requests{}
		b := newBed(t, func(cfg *Config) { cfg.Metrics = m })
		if status, _, body := b.plain("GET", "/metrics", ""); status != http.StatusOK || body != "metrics 1\n" {
			t.Errorf("%d %s", status, body)
		}
		b.plain("POST", "/api/v1/runs", `{"workflow":"order","workflowId":"w"}`)
		b.plain("GET", "/api/v1/runs/w", "")
		b.plain("GET", "/api/v1/runs/nobody", "")
		b.plain("GET", "/made/up", "")
		b.plain("DELETE", "/api/v1/runs", "")
		want := []string{
			`GET "/metrics" 200`, `POST "/api/v1/runs" 201`, `GET "/api/v1/runs/{run}" 200`,
			`GET "/api/v1/runs/{run}" 404`, `GET "" 404`, `DELETE "" 405`,
		}
		synctest.Wait() // the last answer may be read before it is counted
		m.mu.Lock()
		defer m.mu.Unlock()
		if !slices.Equal(m.all, want) {
			t.Errorf("counted %v, want %v", m.all, want)
		}
	})
}

// TestNoMetrics checks that a server without metrics has no page of them.
func TestNoMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		if status, _, body := b.plain("GET", "/metrics", ""); status != http.StatusNotFound {
			t.Errorf("%d %s", status, body)
		}
	})
}
