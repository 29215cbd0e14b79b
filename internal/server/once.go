package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// Answers keeps what requests with an idempotency key were answered. Its methods are safe for concurrent use.
type Answers interface {
	// Recall returns the value that is stored under the hash of a key; nil: there is none.
	Recall(ctx context.Context, hash string) ([]byte, error)
	// Remember stores it, and returns when that is durable.
	Remember(ctx context.Context, hash string, value []byte) error
	Forget(ctx context.Context, hash string) error
}

const (
	keyHeader = "Idempotency-Key"
	longestID = 255
	// mostAnswer bounds an answer that is kept. Those of changes are short.
	mostAnswer = 1 << 20
)

// secretAnswers are the routes whose answers have a secret. What is kept would be shown again after the secret was
// revoked, and is in every backup.
var secretAnswers = map[string]bool{
	"POST /api/v1/tokens": true, "POST /api/v1/webhooks": true, "POST /api/v1/webhooks/{webhook}/rotate": true,
}

// storedAnswer is an answer in its stored form. Before the request is carried out, one without a status is stored: if
// the server ends meanwhile, it is unknown whether the request was carried out.
type storedAnswer struct {
	Request string      `json:"request"` // the hash of the request
	Status  int         `json:"status,omitempty"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body,omitempty"`
}

// once carries a request out, or returns the answer to an earlier one with the same idempotency key.
func (s *Server) once(w http.ResponseWriter, r *http.Request, pattern string, next http.Handler) {
	if !takesKey(r, pattern) {
		next.ServeHTTP(w, r)
		return
	}
	key := r.Header.Get(keyHeader)
	hash, request, err := hashesOf(r, key)
	if err != nil {
		answer(w, httpapi.Invalid(http.StatusBadRequest, "the body cannot be read: "+err.Error()))
		return
	}
	if _, there := s.atWork.LoadOrStore(hash, true); there {
		p := httpapi.ProblemOf(&api.Error{
			Code: api.CodeConflict, Message: "a request with this Idempotency-Key is being carried out",
			Hint: "ask again in a moment, for its answer",
		})
		w.Header().Set("Retry-After", "1")
		answer(w, p)
		return
	}
	defer s.atWork.Delete(hash)
	if p := s.carryOutOnce(w, r, hash, request, next); p != nil {
		answer(w, p)
	}
}

// takesKey reports whether a request has an idempotency key that counts. That of a start is dealt with by its run.
func takesKey(r *http.Request, pattern string) bool {
	return r.Header.Get(keyHeader) != "" && r.Method != http.MethodGet && pattern != "POST "+httpapi.Base+"/runs"
}

// refuseKey returns why a request takes no idempotency key, if it has one.
func (s *Server) refuseKey(r *http.Request, pattern string) *httpapi.Problem {
	key, detail := r.Header.Get(keyHeader), ""
	_, path, _ := strings.Cut(pattern, " ")
	switch {
	case !takesKey(r, pattern):
		return nil
	case len(key) > longestID || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		detail = fmt.Sprintf("write it with printable ASCII, at most %d characters", longestID)
	case s.cfg.Answers == nil:
		detail = "this server keeps no answers"
	case strings.HasPrefix(path, httpapi.Base+"/bulk/"):
		detail = "an operation on many runs is a stream that cannot be answered again: ask for the rest"
	case secretAnswers[pattern]:
		detail = "the answer has a secret, and none of these is kept: ask without a key"
	case strings.HasPrefix(path, httpapi.Base+"/tasks/"):
		detail = "tasks have tokens, which do the same"
	default:
		return nil
	}
	return httpapi.Invalid(http.StatusBadRequest, "the request is not valid", httpapi.Fault{
		Parameter: keyHeader, Detail: detail,
	})
}

// hashesOf returns the hash of a key, which belongs to the caller, and that of the request.
func hashesOf(r *http.Request, key string) (hash, request string, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	sum := func(parts ...string) string {
		h := sha256.New()
		for _, p := range parts {
			fmt.Fprintf(h, "%d:%s", len(p), p)
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	hash = sum("pawl idempotency", r.Header.Get("Authorization"), key)
	return hash, sum(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body)), nil
}

// carryOutOnce carries a request out unless that was done before. It returns a problem, or it has answered.
func (s *Server) carryOutOnce(
	w http.ResponseWriter, r *http.Request, hash, request string, next http.Handler,
) *httpapi.Problem {
	text, err := s.cfg.Answers.Recall(r.Context(), hash)
	if err != nil {
		return httpapi.ProblemOf(err)
	}
	var before storedAnswer
	if text != nil {
		if err := json.Unmarshal(text, &before); err != nil {
			return httpapi.ProblemOf(err)
		}
		return before.repeat(w, request)
	}
	if err := s.remember(r.Context(), hash, storedAnswer{Request: request}); err != nil {
		return httpapi.ProblemOf(err)
	}
	// The caller may go away; the result of the request is stored nevertheless.
	within, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), answerWithin)
	defer cancel()
	defer context.AfterFunc(r.Context(), func() {
		if endedFor(r.Context()) != nil {
			cancel()
		}
	})()
	held := &holding{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(held, r.WithContext(within))
	switch unknown := bytes.Contains(held.body.Bytes(), []byte(`"code":"`+api.CodeUncertain+`"`)); {
	case unknown, held.status == statusGone: // as if the server had ended meanwhile
	case held.status >= 500, held.body.Len() > mostAnswer:
		err = s.cfg.Answers.Forget(within, hash)
	default:
		err = s.remember(within, hash, storedAnswer{request, held.status, held.header, held.body.Bytes()})
	}
	if err != nil {
		s.cfg.Log.Error("an answer is not remembered",
			"id", "answer-not-remembered", "path", r.URL.Path, "error", err)
	}
	held.sendTo(w)
	return nil
}

// answerWithin limits the time of a request whose caller may have gone.
const answerWithin = time.Minute

func (s *Server) remember(ctx context.Context, hash string, k storedAnswer) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return s.cfg.Answers.Remember(ctx, hash, text)
}

// repeat gives an answer again.
func (k *storedAnswer) repeat(w http.ResponseWriter, request string) *httpapi.Problem {
	switch {
	case k.Request != request:
		return httpapi.ProblemOf(&api.Error{
			Code: api.CodeConflict, Message: "this Idempotency-Key was used for another request",
			Hint: "use a new key for each request, and the same one to repeat it",
		})
	case k.Status == 0:
		p := httpapi.ProblemOf(&api.Error{
			Code: api.CodeUncertain, Message: "the server ended while it carried this request out",
			Hint: "look whether it was carried out; if it was not, ask with a new Idempotency-Key",
		})
		p.Status, p.Title = http.StatusConflict, http.StatusText(http.StatusConflict) // asking again does not help
		return p
	}
	maps.Copy(w.Header(), k.Header)
	w.Header().Set("Idempotency-Replayed", "true")
	w.WriteHeader(k.Status)
	_, _ = w.Write(k.Body) // a caller that has gone needs no answer
	return nil
}

// holding is an answer that is sent once it is whole.
type holding struct {
	header http.Header
	status int
	body   bytes.Buffer
	once   sync.Once
}

func (h *holding) Header() http.Header         { return h.header }
func (h *holding) Write(b []byte) (int, error) { return h.body.Write(b) }
func (h *holding) WriteHeader(status int)      { h.once.Do(func() { h.status = status }) }

func (h *holding) sendTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), h.header)
	w.WriteHeader(h.status)
	_, _ = w.Write(h.body.Bytes()) // a caller that has gone needs no answer
}
