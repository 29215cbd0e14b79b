package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestHeldIsNoError checks that a request whose run is on its way to another node is logged as others are: a cluster
// that moves its partitions answers many of them so.
func TestHeldIsNoError(t *testing.T) {
	for code, level := range map[string]string{"held": "INFO", "stalled": "ERROR"} {
		var log bytes.Buffer
		s := &Server{roles: map[string]string{"POST /api/v1/runs": api.RoleOperate}}
		s.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		out := &patient{status: http.StatusServiceUnavailable, failed: []byte(`{"code":"` + code + `","detail":"d"}`)}
		s.logged(httptest.NewRequest(http.MethodPost, "/api/v1/runs", nil), "POST /api/v1/runs", out, "1", 0)
		if got := log.String(); !strings.Contains(got, "level="+level) || !strings.Contains(got, "code="+code) {
			t.Errorf("%s: %q", code, got)
		}
	}
}
