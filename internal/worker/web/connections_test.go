package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/worker/workertest"
)

// TestHTTPKeepsConnections makes as many requests at once as a pool may have slots, twice: the second time all
// connections are there.
func TestHTTPKeepsConnections(t *testing.T) {
	const atOnce = 256
	var made atomic.Int64
	var together atomic.Pointer[sync.WaitGroup]
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all := together.Load()
		all.Done()
		all.Wait() // all others come first: none may use the connection of one that has ended
		w.WriteHeader(http.StatusOK)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	h := newTestHTTP(t)
	task := httpTask(t, map[string]any{"url": s.URL})
	for range 2 {
		all := new(sync.WaitGroup)
		all.Add(atOnce)
		together.Store(all)
		var ended sync.WaitGroup
		for range atOnce {
			ended.Go(func() {
				if res := h.Execute(t.Context(), &task, workertest.NewSigns()); res.Failure != nil {
					t.Error(res.Failure)
				}
			})
		}
		ended.Wait()
	}
	if n := made.Load(); n != atOnce {
		t.Errorf("%d requests at once, twice, made %d connections", atOnce, n)
	}
}
