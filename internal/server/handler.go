package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// handler returns the handler of all requests: first the checks for every request, then the routes.
func (s *Server) handler() http.Handler {
	s.routes(s.mux)
	foreign := http.NewCrossOriginProtection()
	return compress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &patient{ResponseWriter: w, control: http.NewResponseController(w), status: http.StatusOK}
		pattern, id, in := "", requestID(r), s
		defer func(from time.Time) {
			took := time.Since(from)
			in.counted(r, pattern, out.status, took)
			s.logged(r, pattern, out, id, took)
		}(time.Now())
		defer s.recovered(out, r)
		header := w.Header()
		setAlways(header, id)
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// A proxy before the server that takes the length from another header than the server would take the rest
			// of the body for the next request, or the other way round. So there is no next request on this connection.
			header.Set("Connection", "close")
		}
		if s.cfg.Clock != nil {
			header.Set(httpapi.ClockHeader, api.At(s.now()).String())
		}
		if p := cmp.Or(s.refuse(foreign, r), refuseFull(r, header)); p != nil {
			answer(out, p)
			return
		}
		var route http.Handler
		route, pattern = s.mux.Handler(r)
		var p *httpapi.Problem
		if r, p = s.admit(r, pattern); p == nil {
			in, p = s.inNamespace(r, pattern)
		}
		if p != nil {
			s.audit(r, pattern, p.Status, id)
			answer(out, p)
			return
		}
		if pattern == "" {
			answer(out, s.noRoute(route, r))
			return
		}
		end, p := s.usage.begin(r, pattern)
		if p != nil {
			answer(out, p)
			return
		}
		defer end()
		if r, p = ofCaller(in, r); p == nil {
			p = in.refuseKey(r, pattern)
		}
		if p != nil {
			answer(out, p)
			return
		}
		returned, p := s.takeBody(out, r, pattern)
		if p != nil {
			answer(out, p)
			return
		}
		defer returned()
		r, finish := s.bounded(in, r, pattern)
		defer finish()
		out.ctx = r.Context()
		defer func() { s.audit(r, pattern, out.status, id) }()
		in.once(out, r, pattern, in.mux)
	}))
}

// setAlways sets the headers that every answer has.
func setAlways(header http.Header, id string) {
	header.Set(idHeader, id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// counted counts a request that was answered.
func (s *Server) counted(r *http.Request, pattern string, status int, took time.Duration) {
	if s.cfg.Metrics == nil {
		return
	}
	_, route, _ := strings.Cut(pattern, " ") // a pattern is a method and a path
	s.cfg.Metrics.Request(r.Method, route, status, took)
}

// refuse returns why a request is not answered: a foreign web page makes it through somebody's browser.
func (s *Server) refuse(foreign *http.CrossOriginProtection, r *http.Request) *httpapi.Problem {
	// A page that reaches the server under another name has no token to send.
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "tcp" &&
		!s.cfg.Guarded && s.cfg.Allow == nil && !isLoopback(r.Host) {
		return httpapi.Invalid(http.StatusMisdirectedRequest, fmt.Sprintf(
			"this server answers as localhost and 127.0.0.1, not as %q: the name of another host may be an attempt "+
				"of a web page to reach it", r.Host))
	}
	if err := foreign.Check(r); err != nil {
		return httpapi.Invalid(http.StatusForbidden,
			"a web page of another origin may not use this server: "+err.Error())
	}
	return nil
}

// onlyProbesKey is the key of whether the connection of a request may only ask how the server is.
type onlyProbesKey struct{}

// refuseFull returns why a request is not answered whose connection was let in although connections are full. Nothing
// follows on that connection.
func refuseFull(r *http.Request, header http.Header) *httpapi.Problem {
	if only, _ := r.Context().Value(onlyProbesKey{}).(bool); !only {
		return nil
	}
	header.Set("Connection", "close")
	if r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
		return nil
	}
	return httpapi.ProblemOf(&api.Error{
		Code: api.CodeLimited, Message: "the server has as many connections as it may have",
		Hint: "ask again in a moment; pawl server --connections bounds them, and its log names who has most",
	})
}

// isLoopback reports whether a host, with or without a port, is this machine under a name that nobody else can own.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// noRoute returns the problem of a request that no route takes. route is the status of the routes: 404, or 405 with the
// methods of the path.
func (s *Server) noRoute(route http.Handler, r *http.Request) *httpapi.Problem {
	probe := &recorder{header: http.Header{}}
	route.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		p := httpapi.Invalid(probe.status, fmt.Sprintf("%s takes %s, not %s", r.URL.Path, probe.header.Get("Allow"),
			r.Method))
		return p
	}
	p := httpapi.Invalid(http.StatusNotFound, "there is no "+r.URL.Path)
	p.Code, p.Hint = api.CodeNotFound, "/docs shows what there is"
	return p
}

// recorder is an answer of which only the status and the header matter.
type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// takeBody reads the body of a request and compares it with the schema of its route. returned has to be called when the
// request has ended.
func (s *Server) takeBody(w *patient, r *http.Request, pattern string) (returned func(), p *httpapi.Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}, nil
	}
	if pattern == "PUT "+taskContent {
		r.Body = &patientBody{r.Body, w.control}
		return func() {}, nil
	}
	most := s.bodyBound(pattern)
	size := r.ContentLength
	if size < 0 || size > most {
		size = most
	}
	if returned, p = s.usage.beginBody(callerOf(r.Context()), size); p != nil {
		s.throwAway(w, r)
		return nil, p
	}
	body, p := s.readBody(w, r, most)
	if p == nil {
		readAsJSON(r, body)
		p = s.checkShape(pattern, r.Header.Get("Content-Type"), body)
	}
	if p != nil {
		returned()
		return nil, p
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	return returned, nil
}

// throwAway reads and discards a body that is refused. Many clients read the answer only when they have sent
// everything, and some lose one that comes before.
func (s *Server) throwAway(w *patient, r *http.Request) {
	_ = w.control.SetReadDeadline(time.Now().Add(bodyWithin)) // fails only without a connection, as in tests
	_, _ = io.CopyN(io.Discard, r.Body, thrownAway*s.cfg.MaxBody)
}

// readBody reads the body of a request, so that no handler waits for a slow caller, and none reads too much.
func (s *Server) readBody(w *patient, r *http.Request, most int64) ([]byte, *httpapi.Problem) {
	_ = w.control.SetReadDeadline(time.Now().Add(bodyWithin)) // fails only without a connection, as in tests
	var text bytes.Buffer
	text.Grow(int(min(max(r.ContentLength, 0), most)) + bytes.MinRead)
	_, err := text.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		s.throwAway(w, r)
		return nil, tooLarge(most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		p := httpapi.Invalid(http.StatusRequestTimeout, fmt.Sprintf("the body did not arrive within %s", bodyWithin))
		p.Code = api.CodeClosed // the request itself is correct: the client may send it again
		return nil, p
	case err != nil:
		return nil, httpapi.Invalid(http.StatusBadRequest, "the body cannot be read: "+err.Error())
	}
	_ = w.control.SetReadDeadline(time.Time{}) // else it would end the request while it is carried out
	return text.Bytes(), nil
}

// readAsJSON allows a body that looks like JSON to be read as JSON if its type is missing, or is the default of curl
// -d.
func readAsJSON(r *http.Request, body []byte) {
	said := r.Header.Get("Content-Type")
	if (said == "" || said == "application/x-www-form-urlencoded") &&
		bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		r.Header.Set("Content-Type", "application/json")
	}
}

// recovered answers a request whose handler panicked. The panic concerns no other request.
func (s *Server) recovered(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	s.cfg.Log.Error("a handler panicked",
		"id", "handler-panic", "method", r.Method, "path", r.URL.Path, "panic", v,
		"stack", string(debug.Stack()))
	answer(w, httpapi.ProblemOf(&api.Error{
		Code: api.CodeInternal, Message: "the server failed on this request", Hint: "the log has the details",
	}))
}

// answer writes a problem.
func answer(w http.ResponseWriter, p *httpapi.Problem) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", httpapi.ProblemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a caller that has gone needs no answer
}

// patient is a ResponseWriter with a deadline for each part: it gives up on a reader that reads nothing for too long.
type patient struct {
	http.ResponseWriter
	control  *http.ResponseController
	ctx      context.Context // the request's context; nil if it was refused before
	status   int
	failed   []byte // the beginning of an answer that is an error of the server
	answered bool   // the answer holds the reason for which the server has ended the request
}

// statusGone is the status of a request whose context has ended. Nobody gets it, unless the server has ended it.
var statusGone = api.CodeCancelled.HTTPStatus()

// WriteHeader implements http.ResponseWriter. A request that the server has ended is answered with the reason.
func (p *patient) WriteHeader(status int) {
	if why := endedFor(p.ctx); why != nil && status == statusGone {
		p.Header().Del("Content-Length")
		answer(p, why)
		p.answered = true
		return
	}
	p.status = status
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. Of a large answer the reader gets its time for each part.
func (p *patient) Write(b []byte) (n int, err error) {
	if p.answered {
		return len(b), nil
	}
	if p.status >= http.StatusInternalServerError {
		p.failed = append(p.failed, b[:min(len(b), mostReason-len(p.failed))]...)
	}
	for err == nil {
		part := b[n:min(n+writePart, len(b))]
		p.begin()
		var m int
		m, err = p.ResponseWriter.Write(part)
		if n += m; n == len(b) || m < len(part) {
			break
		}
	}
	return n, err
}

// FlushError sends the data that was written so far.
func (p *patient) FlushError() error {
	p.begin()
	return p.control.Flush()
}

// begin gives the reader its time for the next part.
func (p *patient) begin() {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeWithin)) // fails only without a connection, as in tests
}

// Unwrap allows a ResponseController to find the connection.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
