package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// bodyDetails bounds how much of an unexpected response's body its failure carries, in bytes.
const bodyDetails = 4 << 10

// conclude reads the response and makes the attempt's result of it.
func (p *HTTPPayload) conclude(ctx context.Context, resp *http.Response, alive worker.Alive) worker.Result {
	expected := p.Expect.has(resp.StatusCode)
	if expected && resp.ContentLength > maxResponse && resp.Request.Method != http.MethodHead {
		return worker.Result{Failure: tooLarge(resp)}
	}
	body, err := readBody(resp.Body, maxResponse, alive)
	switch {
	case !expected:
		return worker.Result{Failure: statusFailure(resp, body), Output: responseOutput(resp, body)}
	case err != nil:
		return worker.Result{Failure: requestFailure(ctx, resp.Request, err)}
	case len(body) > maxResponse:
		return worker.Result{Failure: tooLarge(resp)}
	}
	return worker.Result{Output: responseOutput(resp, body)}
}

// readBody reads at most one byte more than the limit.
func readBody(r io.Reader, limit int64, alive worker.Alive) ([]byte, error) {
	var body []byte
	chunk := make([]byte, 32<<10)
	for int64(len(body)) <= limit {
		n, err := r.Read(chunk[:min(int64(len(chunk)), limit+1-int64(len(body)))])
		if n > 0 {
			alive.Output()
			body = append(body, chunk[:n]...)
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

func responseOutput(resp *http.Response, body []byte) []byte {
	headers := make(map[string]string, len(resp.Header))
	for name, values := range resp.Header {
		headers[strings.ToLower(name)] = worker.ValidText([]byte(strings.Join(values, ", ")))
	}
	output := map[string]any{"status": resp.StatusCode, "headers": headers, "body": worker.ValidText(body)}
	if data := worker.ValidText(body); isJSON(resp.Header.Get("Content-Type"), data) {
		output["json"] = json.RawMessage(data)
	}
	return worker.EncodeJSON(output)
}

// isJSON reports whether a body is JSON: its type says so, or, since many servers do not care, it is an object or a
// list.
func isJSON(contentType, body string) bool {
	media, _, _ := mime.ParseMediaType(contentType) // a type that cannot be read is none
	trimmed := strings.TrimLeft(body, " \t\r\n")
	said := media == "application/json" || strings.HasSuffix(media, "+json")
	return (said || strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) && json.Valid([]byte(body))
}

// statusFailure is the failure of a response whose status is not an expected one.
func statusFailure(resp *http.Response, body []byte) *policy.Failure {
	code := resp.StatusCode
	f := &policy.Failure{Kind: policy.KindFailed, Type: "status", Code: code}
	if code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests {
		f.Kind = policy.KindError
	}
	f.Message = fmt.Sprintf("%s answered %s", place(resp.Request), strings.TrimSpace(strconv.Itoa(code)+" "+http.StatusText(code)))
	if line, _, _ := strings.Cut(strings.TrimSpace(worker.ValidText(body[:min(len(body), bodyDetails)])), "\n"); line != "" {
		f.Message += ": " + worker.Shorten(line, 200)
	}
	f.Details = worker.EncodeJSON(map[string]any{"status": code, "body": worker.Shorten(worker.ValidText(body), bodyDetails)})
	f.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	return f
}

// retryAfter reads the header of that name: whole seconds, or a date; nil: it says nothing that can be understood.
func retryAfter(value string, now time.Time) *time.Duration {
	value = strings.TrimSpace(value)
	var wish time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		wish = time.Duration(min(seconds, uint64(math.MaxInt64/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wish = max(at.Sub(now), 0)
	} else {
		return nil
	}
	return &wish
}

func tooLarge(resp *http.Response) *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindFailed, Type: "too_large", Code: resp.StatusCode,
		Message: fmt.Sprintf("the answer of %s is larger than %d MiB; fetch it with a command that writes a file", place(resp.Request), maxResponse>>20),
	}
}

func invalidURL(text, problem string) *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindFailed, Type: "invalid_url", Message: fmt.Sprintf("url %q: %s", worker.Shorten(text, 200), problem),
	}
}

// requestFailure says why a request got no whole answer.
func requestFailure(ctx context.Context, req *http.Request, err error) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindError, Type: "connection"}
	cause := underlying(err)
	switch {
	case ctx.Err() != nil:
		return worker.Stopped(ctx)
	case errors.Is(err, errRedirects):
		f.Kind, f.Type = policy.KindFailed, "redirect"
	case strings.Contains(cause.Error(), "unsupported protocol scheme"), strings.Contains(cause.Error(), "failed to parse Location"):
		f.Kind, f.Type = policy.KindFailed, "invalid_url"
	case strings.Contains(cause.Error(), "invalid header field"), strings.Contains(cause.Error(), "invalid method"):
		f.Kind, f.Type = policy.KindFailed, "invalid_request"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		cause = errors.New("the connection was closed before the answer was complete")
	}
	f.Message = place(req) + ": " + cause.Error()
	return f
}

// underlying takes away what package net/url wraps around an error: it repeats the URL, query and all.
func underlying(err error) error {
	var wrapped *url.Error
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err
}

// place names a request in messages. Query and user stay out: that is where secrets are.
func place(req *http.Request) string {
	u := *req.URL
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return req.Method + " " + u.String()
}
