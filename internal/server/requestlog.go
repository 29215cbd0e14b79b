package server

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
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

// logged logs a request that was answered: if it changes something or failed at its level, else only for debugging.
func (s *Server) logged(r *http.Request, pattern string, out *patient, id string, took time.Duration) {
	status, level := out.status, slog.LevelDebug
	code, detail := "", ""
	if status >= http.StatusInternalServerError {
		code, detail = reasonOf(out.failed)
	}
	switch {
	case status >= http.StatusInternalServerError && code != api.CodeHeld.String(): // a run that moves is no failure
		level = slog.LevelError
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		level = slog.LevelWarn
	case audited(r, s.roles[pattern]):
		level = slog.LevelInfo
	}
	if !s.cfg.Log.Enabled(r.Context(), level) {
		return
	}
	var more int
	if status == http.StatusUnauthorized {
		var now bool
		if more, now = s.unknown.note(time.Now()); !now {
			return
		}
	}
	actor, namespace := "", ""
	if c := callerOf(r.Context()); c != nil {
		actor, namespace = c.name(), c.namespace
	}
	fields := []any{
		"id", id, "method", r.Method, "path", r.URL.Path, "status", status, "took", took.Seconds(), "actor", actor,
		"namespace", namespace, "from", r.RemoteAddr,
	}
	if status >= http.StatusInternalServerError {
		fields = append(fields, "code", code, "detail", detail)
	}
	if more > 0 {
		fields = append(fields, "alike", more)
	}
	s.cfg.Log.Log(r.Context(), level, "request", fields...)
}

// unknownEvery is how often the log mentions requests without a valid token at most. Anybody can make many.
const unknownEvery = 10 * time.Second

// unknown counts requests without a token that counts.
type unknown struct {
	mu   sync.Mutex
	told time.Time
	more int // number of requests that were not logged since
}

// note counts a request. now is set if it should be logged, with the number of unlogged ones since the last.
func (u *unknown) note(at time.Time) (more int, now bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.told.IsZero() && at.Sub(u.told) < unknownEvery {
		u.more++
		return 0, false
	}
	more, u.told, u.more = u.more, at, 0
	return more, true
}

// mostReason bounds how much of an answer is read for its reason, in bytes.
const mostReason = 4 << 10

// reasonOf returns code and detail of an error answer, in any form that the server uses. An answer in another form is
// its own detail.
func reasonOf(body []byte) (code, detail string) {
	var said struct {
		Code, Detail string
		Error        struct{ Code, Message string }
	}
	if json.Unmarshal(body, &said) != nil {
		return string(api.CodeInternal), string(body)
	}
	return strings.ToLower(cmp.Or(said.Code, said.Error.Code)), cmp.Or(said.Detail, said.Error.Message)
}
