package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestQueuedLimit checks that no run is started while too many attempts wait for a worker, of the namespace that they
// wait in, and that all else goes on.
func TestQueuedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queued atomic.Int64
		g := newGuarded(t, func(c *Config) {
			c.Queued = func() int { return int(queued.Load()) }
			c.Limits.Queued = 5
		})
		start := func() (int, string) {
			status, _, text := g.as(api.RoleOperate, "POST", "/api/v1/runs", `{"workflow":"order"}`)
			return status, text
		}
		if status, text := start(); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		queued.Store(5)
		status, text := start()
		if status != http.StatusTooManyRequests || !strings.Contains(text, "5 attempts or more") {
			t.Errorf("%d %s", status, text)
		}
		status, _, text = g.as(api.RoleOperate, "POST", "/api/v1/runs/@last/restart", "")
		if status != http.StatusTooManyRequests {
			t.Errorf("a restart: %d %s", status, text)
		}
		if status, _, text := g.as(api.RoleOperate, "POST", "/api/v1/runs/@last/pause", `{}`); status != 204 {
			t.Errorf("an operation: %d %s", status, text)
		}
		g.server.SetLimits(Limits{Queued: 6})
		if status, text := start(); status != http.StatusCreated {
			t.Errorf("with another limit: %d %s", status, text)
		}
	})
}

// TestAllWaits checks that the streams of all tokens share a limit.
func TestAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, func(c *Config) { c.Limits = Limits{Waits: 2, AllWaits: 3} })
		transport := &http.Transport{DialContext: g.listener.Dial}
		defer transport.CloseIdleConnections()
		stream := func(role string) (status int, end func()) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://x/api/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+g.tokens[role].Token)
			answer, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode, func() {
				if err := answer.Body.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
		}
		var ends []func()
		for _, c := range []struct {
			role string
			want int
		}{
			{api.RoleRead, 200}, {api.RoleRead, 200}, {api.RoleRead, 429}, {api.RoleAdmin, 200}, {api.RoleOperate, 429},
		} {
			status, end := stream(c.role)
			if status != c.want {
				t.Errorf("a stream of %s: %d, want %d", c.role, status, c.want)
			}
			if status == http.StatusOK {
				ends = append(ends, end)
			} else {
				end()
			}
		}
		ends[0]()
		status, end := stream(api.RoleOperate)
		if status != http.StatusOK {
			t.Errorf("when one has ended: %d", status)
		}
		for _, e := range append(ends[1:], end) {
			e()
		}
	})
}
