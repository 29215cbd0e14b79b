package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/reach"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// bodyDetails is how many bytes of an unexpected response's body are put into its failure.
const bodyDetails = 4 << 10

// conclude reads the response and turns it into the attempt's result.
func (p *HTTPPayload) conclude(
	ctx context.Context, resp *http.Response, alive worker.Alive, redactor *secret.Redactor,
) worker.Result {
	expected := p.Expect.has(resp.StatusCode)
	if expected && resp.ContentLength > maxResponse && resp.Request.Method != http.MethodHead {
		return worker.Result{Failure: tooLarge(resp)}
	}
	body, err := readBody(resp.Body, resp.ContentLength, maxResponse, alive)
	large := len(body) > maxResponse // redacting changes the length
	switch {
	case large || err != nil:
		body = redactor.Cut(body)
	case json.Valid(body):
		body = redactor.JSON(body)
	default:
		body = redactor.Bytes(body)
	}
	switch {
	case !expected:
		return worker.Result{Failure: statusFailure(resp, body), Output: responseOutput(resp, body)}
	case err != nil:
		return worker.Result{Failure: requestFailure(ctx, resp.Request, err)}
	case large:
		return worker.Result{Failure: tooLarge(resp)}
	}
	return worker.Result{Output: responseOutput(resp, body)}
}

// These bound the first room for a body. Most bodies are short.
const (
	firstRead = 1 << 10  // the room if the length is not known, or may be large
	mayLie    = 64 << 10 // a larger declared size is not trusted before the bytes come
)

// readBody reads at most one byte more than the limit, which shows the caller that the body is too large. size is how
// long the body should be; negative: that is not known.
func readBody(r io.Reader, size, limit int64, alive worker.Alive) ([]byte, error) {
	if size < 0 || size > mayLie {
		size = firstRead
	}
	body := make([]byte, 0, min(size, limit)+1) // one byte more, for the end
	for int64(len(body)) <= limit {
		if len(body) == cap(body) {
			body = slices.Grow(body, firstRead) // doubles what is there
		}
		n, err := r.Read(body[len(body):min(int64(cap(body)), limit+1)])
		if n > 0 {
			alive.Output()
			body = body[:len(body)+n]
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return body, err
		}
	}
	return body, nil
}

// responseOutput returns the output of an attempt: an object with sorted keys. It is written part by part, because an
// encoder that has to look at a map takes longer than the rest of a request.
func responseOutput(resp *http.Response, body []byte) []byte {
	text := worker.ValidText(body)
	var out bytes.Buffer
	out.Grow(512 + 2*len(text)) // the body may be there twice
	out.WriteString(`{"body":`)
	out.Write(worker.AppendText(out.AvailableBuffer(), text))
	out.WriteString(`,"headers":{`)
	for i, name := range slices.Sorted(maps.Keys(resp.Header)) { // which differ in more than their case
		if i > 0 {
			out.WriteByte(',')
		}
		values := resp.Header[name]
		out.Write(worker.AppendText(out.AvailableBuffer(), strings.ToLower(name)))
		out.WriteByte(':')
		out.Write(worker.AppendText(out.AvailableBuffer(), worker.ValidText([]byte(strings.Join(values, ", ")))))
	}
	out.WriteByte('}')
	if isJSON(resp.Header.Get("Content-Type"), text) {
		out.WriteString(`,"json":`)
		_ = json.Compact(&out, []byte(text)) // it is valid
	}
	out.WriteString(`,"status":`)
	out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(resp.StatusCode), 10))
	out.WriteByte('}')
	return out.Bytes()
}

// isJSON reports whether a body is JSON. Many servers send no or a wrong content type, so an object or a list counts
// too.
func isJSON(contentType, body string) bool {
	media, _, _ := mime.ParseMediaType(contentType) // a type that cannot be read counts as none
	trimmed := strings.TrimLeft(body, " \t\r\n")
	declared := media == "application/json" || strings.HasSuffix(media, "+json")
	return (declared || strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) &&
		json.Valid([]byte(body)) && depth(body) <= maxDepth
}

// maxDepth is how deep JSON may be nested. JSON readers give up at a depth of 10,000, and the output is inside other
// JSON: a run with a deeper one could no longer be shown.
const maxDepth = 1000

// depth returns how deep JSON is nested, which is valid.
func depth(body string) (deepest int) {
	now, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return deepest
}

// statusFailure returns the failure of a response with a status that is not expected.
func statusFailure(resp *http.Response, body []byte) *policy.Failure {
	code := resp.StatusCode
	f := &policy.Failure{Kind: policy.KindFailed, Type: "status", Code: code}
	if code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests {
		f.Kind = policy.KindError
	}
	status := strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
	f.Message = describe(resp.Request) + " answered " + status
	start := worker.ValidText(body[:min(len(body), bodyDetails)])
	if line, _, _ := strings.Cut(strings.TrimSpace(start), "\n"); line != "" {
		f.Message += ": " + worker.Shorten(line, 200)
	}
	f.Details = worker.EncodeJSON(map[string]any{
		"status": code, "body": worker.Shorten(worker.ValidText(body), bodyDetails),
	})
	f.RetryAfter = RetryAfterOf(resp.Header, time.Now())
	return f
}

// RetryAfterOf reads the Retry-After header of an answer. A date in it counts from the date of the answer, if that is
// there: the server wrote both by one clock, which may differ from that of this machine.
func RetryAfterOf(answer http.Header, now time.Time) *time.Duration {
	if at, err := http.ParseTime(answer.Get("Date")); err == nil {
		now = at
	}
	return RetryAfter(answer.Get("Retry-After"), now)
}

// RetryAfter reads a Retry-After header: whole seconds, or a date. It returns nil if the header is missing or invalid.
func RetryAfter(value string, now time.Time) *time.Duration {
	value = strings.TrimSpace(value)
	var after time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		after = time.Duration(min(seconds, uint64(math.MaxInt64/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		after = max(at.Sub(now), 0)
	} else {
		return nil
	}
	return &after
}

func tooLarge(resp *http.Response) *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindFailed, Type: "too_large", Code: resp.StatusCode,
		Message: fmt.Sprintf("the answer of %s is larger than %d MiB; fetch it with a command that writes a file",
			describe(resp.Request), maxResponse>>20),
	}
}

func invalidURL(text, problem string) *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindFailed, Type: "invalid_url",
		Message: fmt.Sprintf("url %q: %s", worker.Shorten(text, 200), problem),
	}
}

// requestFailure explains why a request got no answer, or only a part of one.
func requestFailure(ctx context.Context, req *http.Request, err error) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindError, Type: "connection"}
	cause := underlying(err)
	switch {
	case ctx.Err() != nil:
		return worker.Stopped(ctx)
	case notDialled(err) && worker.IsShortage(err):
		return worker.Short(ctx, worker.ShortagePause, err)
	case errors.As(err, new(*reach.RefusedError)):
		f.Kind, f.Type = policy.KindFailed, "address_refused"
	case errors.Is(err, errRedirects), errors.Is(err, errTakesSecret):
		f.Kind, f.Type = policy.KindFailed, "redirect"
	case strings.Contains(cause.Error(), "unsupported protocol scheme"),
		strings.Contains(cause.Error(), "failed to parse Location"):
		f.Kind, f.Type = policy.KindFailed, "invalid_url"
	case strings.Contains(cause.Error(), "invalid header field"), strings.Contains(cause.Error(), "invalid method"):
		f.Kind, f.Type = policy.KindFailed, "invalid_request"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		cause = errors.New("the connection was closed before the answer was complete")
	}
	f.Message = describe(req) + ": " + cause.Error()
	return f
}

// notDialled reports whether a request failed because no connection could be made.
func notDialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// underlying removes the *url.Error that net/http wraps around an error: its text repeats the URL with the query, which
// may hold secrets.
func underlying(err error) error {
	var wrapped *url.Error
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err
}

// describe returns method and URL for messages, without the query and the user: those may hold secrets.
func describe(req *http.Request) string {
	u := *req.URL
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return req.Method + " " + u.String()
}
