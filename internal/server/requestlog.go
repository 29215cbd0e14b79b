package server

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// idHeader carries the id of a request, so that it is found in the logs of all programs that it went through.
const idHeader = "X-Request-Id"

// requestID returns the id that the caller gave the request, or a new one.
func requestID(r *http.Request) string {
	foreign := func(c rune) bool {
		return !strings.ContainsRune("-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", c)
	}
	if id := r.Header.Get(idHeader); id != "" && len(id) <= 64 && !strings.ContainsFunc(id, foreign) {
		return id
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}

// logged tells of a request that was answered: what changes something, and what went wrong, else only for debugging.
func (s *Server) logged(r *http.Request, pattern string, status int, id string, took time.Duration) {
	level := slog.LevelDebug
	switch {
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		level = slog.LevelWarn
	case audited(r, pattern):
		level = slog.LevelInfo
	}
	if !s.cfg.Log.Enabled(r.Context(), level) {
		return
	}
	actor, namespace := "", ""
	if c := callerOf(r.Context()); c != nil {
		actor, namespace = c.name(), c.namespace
	}
	s.cfg.Log.Log(r.Context(), level, "request", "id", id, "method", r.Method, "path", r.URL.Path, "status", status,
		"took", took.Seconds(), "actor", actor, "namespace", namespace, "from", r.RemoteAddr)
}
