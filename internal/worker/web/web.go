// Package web executes the http tasks of flows' steps. It is separate from package worker, so that a program without
// flows does not link net/http.
package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/reach"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// HTTPConfig configures an HTTP. Zero values are useful.
type HTTPConfig struct {
	// Transport makes the requests. Defaults to a new one with the settings of net/http, which reads proxies from the
	// environment.
	Transport http.RoundTripper
	// Reach decides which addresses requests may go to, if there is no Transport. nil: all.
	Reach *reach.Policy
	// Secrets finds the secrets of a task's payload, and removes them from the answers of servers. Default: there are
	// none.
	Secrets func(*core.Task) *secret.Store
	// Trace returns the W3C traceparent of an attempt. Default: the trace of the run's headers.
	Trace func(core.Task) string
}

// HTTPPayload is the payload of an http task.
type HTTPPayload struct {
	Method  string            `json:"method,omitempty"` // default: GET, or POST with a body
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Query   map[string]Texts  `json:"query,omitempty"` // added to the URL's

	// JSON, Body and File give the request's body as data, as text or as a file's content. At most one may be set.
	JSON json.RawMessage `json:"json,omitempty"`
	Body string          `json:"body,omitempty"`
	File string          `json:"file,omitempty"`

	// Expect lists the status codes that are a success. Default: 2xx.
	Expect Statuses `json:"expect,omitempty"`
	// Placeholders are the placeholders in the texts.
	Placeholders *secret.Placeholders `json:"placeholders,omitempty"`

	redactor *secret.Redactor // it hides the values of the placeholders
	hidden   []string         // the headers in which there were any
	// secretBody: there were some in the body.
	secretBody bool
}

// HTTP executes requests, one for each attempt.
//
// # What a server gets
//
// These headers, which the payload's headers can replace: Idempotency-Key, the same for all attempts of the step;
// Pawl-Attempt, the attempt's number; Pawl-Deadline-Ms, the time until the attempt's deadline (not sent without a
// deadline); traceparent, with one trace for all attempts of the step; and User-Agent pawl.
//
// # How an attempt ends
//
// The output is {"status", "headers", "body", "json"}. Header names are in lower case. The body is text, in which
// U+FFFD replaces everything that is not UTF-8; json is there if the body is JSON.
//
// A status that is not expected is a failure of type status with that code. Its kind is error for 5xx, 408 and 429,
// which may go away, and failed for others. A Retry-After header sets the failure's RetryAfter. A connection that
// cannot be made or breaks is a failure of kind error and type connection. A body of more than 1 MiB is a failure of
// kind failed and type too_large. Up to 10 redirects are followed. An address that Reach refuses is a failure of kind
// failed and type address_refused.
//
// The response's headers, and each part of its body that arrives, are signs of life.
type HTTP struct {
	client    *http.Client
	transport http.RoundTripper
	reach     *reach.Policy
	secrets   func(*core.Task) *secret.Store
	trace     func(core.Task) string
}

const (
	maxResponse  = 1 << 20 // bytes of a response's body
	maxRedirects = 10
)

var (
	errRedirects   = errors.New("more than 10 redirects")
	errTakesSecret = errors.New("it redirects to another host, and would take a body with a secret there; " +
		"call that host by itself if it may have it")
)

// fileGrace is how long an attempt that was told to stop may wait for a file.
const fileGrace = 5 * time.Second

// NewHTTP returns an executor of http tasks.
func NewHTTP(cfg HTTPConfig) *HTTP {
	transport := cfg.Transport
	if transport == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment}
		if standard, ok := http.DefaultTransport.(*http.Transport); ok {
			own = standard.Clone()
		}
		// Flows call few hosts, and call them often. There are no more idle connections than there were requests at
		// once, which the pool's slots bound, and they are closed after a while.
		own.MaxIdleConns, own.MaxIdleConnsPerHost = 0, math.MaxInt
		if cfg.Reach != nil {
			own.DialContext = cfg.Reach.Dialer().DialContext
		}
		transport = own
	}
	if cfg.Secrets == nil {
		cfg.Secrets = func(*core.Task) *secret.Store { return nil }
	}
	return &HTTP{
		transport: transport, reach: cfg.Reach, secrets: cfg.Secrets, trace: cfg.Trace,
		client: &http.Client{Transport: transport},
	}
}

// Close closes idle connections.
func (h *HTTP) Close() error {
	h.client.CloseIdleConnections()
	return nil
}

// Execute makes the request.
func (h *HTTP) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	var p HTTPPayload
	if err := worker.DecodePayload(t.Payload, &p); err != nil {
		return worker.BadPayload("http", err)
	}
	if err := p.check(); err != nil {
		return worker.BadPayload("http", err)
	}
	if ctx.Err() != nil {
		return worker.Result{Failure: worker.Stopped(ctx)}
	}
	worker.MayAbandon(ctx, &worker.Abandon{Grace: fileGrace}, nil) // a file that is sent or saved may not answer
	secrets := h.secrets(t)
	if err := p.fill(ctx, secrets); err != nil {
		return worker.Result{Failure: worker.NoSecret(ctx, err)}
	}
	redactor := secrets.Redactor()
	res := h.send(ctx, *t, &p, alive, redactor)
	worker.Redact(redactor, &res)
	return res
}

// fill replaces the placeholders in the payload.
func (p *HTTPPayload) fill(ctx context.Context, store *secret.Store) (err error) {
	if p.Placeholders != nil && p.Placeholders.Mark != "" {
		p.secretBody = strings.Contains(p.Body+string(p.JSON), p.Placeholders.Mark)
	}
	if err = p.Placeholders.Fill(ctx, store, &p.URL, &p.Body, &p.File); err != nil {
		return err
	}
	if p.Placeholders != nil && p.Placeholders.Mark != "" {
		for name, text := range p.Headers {
			if strings.Contains(text, p.Placeholders.Mark) {
				p.hidden = append(p.hidden, name)
			}
		}
	}
	if err = p.Placeholders.FillMap(ctx, store, p.Headers); err != nil {
		return err
	}
	for _, texts := range p.Query {
		for i := range texts {
			if err = p.Placeholders.Fill(ctx, store, &texts[i]); err != nil {
				return err
			}
		}
	}
	p.JSON, err = p.Placeholders.FillJSON(ctx, store, p.JSON)
	return err
}

// send makes the request of a payload that is complete.
func (h *HTTP) send(
	ctx context.Context, t core.Task, p *HTTPPayload, alive worker.Alive, redactor *secret.Redactor,
) worker.Result {
	p.redactor = redactor
	req, failure := p.request(ctx, alive)
	if failure != nil {
		return worker.Result{Failure: failure}
	}
	h.setAttemptHeaders(ctx, req, t)
	client := *h.client
	client.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		if err := h.reach.CheckURL(to.URL); err != nil {
			return err
		}
		return p.redirected(to, via)
	}
	if err := h.reach.CheckURL(req.URL); err != nil {
		return worker.Result{Failure: requestFailure(ctx, req, err)}
	}
	resp, err := client.Do(req)
	if err != nil {
		return worker.Result{Failure: requestFailure(ctx, req, err)}
	}
	defer resp.Body.Close()
	alive.Output()
	return p.conclude(ctx, resp, alive, redactor)
}

func (p *HTTPPayload) check() error {
	switch {
	case p.URL == "":
		return errors.New("url is missing")
	case len(p.JSON) > 0 && p.Body != "", p.File != "" && (len(p.JSON) > 0 || p.Body != ""):
		return errors.New("json, body and file cannot be used together; give one of them")
	}
	return nil
}

// request builds the request that the payload describes.
func (p *HTTPPayload) request(ctx context.Context, alive worker.Alive) (*http.Request, *policy.Failure) {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil:
		return nil, invalidURL(p.redactor.Text(p.URL), "it cannot be read: "+underlying(err).Error())
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalidURL(p.redactor.Text(p.URL), fmt.Sprintf("its scheme is %q; use http or https", u.Scheme))
	case u.Hostname() == "":
		return nil, invalidURL(p.redactor.Text(p.URL), "it names no host")
	}
	u.RawQuery = p.query(u.RawQuery)
	body, failure := p.body(alive)
	if failure != nil {
		return nil, failure
	}
	method := strings.ToUpper(p.Method)
	if method == "" {
		method = http.MethodGet
		if body.size > 0 || p.File != "" { // an empty file is a body, too
			method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, &policy.Failure{Kind: policy.KindFailed, Type: "invalid_request", Message: underlying(err).Error()}
	}
	if failure := body.attach(req); failure != nil {
		return nil, failure
	}
	for name, value := range p.Headers {
		if strings.EqualFold(name, "Host") {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// query adds the parameters to the query of the URL, which is otherwise unchanged except for characters that a request
// cannot have: servers read queries in many ways, and some are signed.
func (p *HTTPPayload) query(own string) string {
	var out strings.Builder
	for i := range len(own) {
		if c := own[i]; c <= ' ' || c == '"' || c >= 0x7f {
			fmt.Fprintf(&out, "%%%02X", c)
			continue
		}
		out.WriteByte(own[i])
	}
	more := url.Values{}
	for name, values := range p.Query {
		more[name] = values
	}
	added := more.Encode()
	if out.Len() > 0 && added != "" {
		out.WriteByte('&')
	}
	return out.String() + added
}

// redirected looks at a redirect before it is followed. Secrets go to no other server: neither headers with
// placeholders, as net/http does it with Authorization, nor the earlier URL, with its query, as Referer.
func (p *HTTPPayload) redirected(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	if via[0].Header.Get("Referer") == "" {
		req.Header.Del("Referer")
	}
	from, to := via[0].URL, req.URL
	host := strings.ToLower(from.Hostname())
	same := strings.EqualFold(to.Hostname(), host) || strings.HasSuffix(strings.ToLower(to.Hostname()), "."+host)
	if !same || from.Scheme == "https" && to.Scheme != "https" {
		if p.secretBody && req.Body != nil && req.Body != http.NoBody {
			return errTakesSecret
		}
		for _, name := range p.hidden {
			req.Header.Del(name)
		}
	}
	return nil
}

// setAttemptHeaders sets the headers that describe the attempt, except those that the payload has set. The trace is
// that of the run's headers. Without one its ids are hashes, so that all attempts of a step share one trace.
func (h *HTTP) setAttemptHeaders(ctx context.Context, req *http.Request, t core.Task) {
	key := worker.IdempotencyKey(t.Token)
	attempt := strconv.Itoa(t.Token.Attempt)
	texts := make([]string, 0, 6) // room for all headers: Header.Set makes a list for each
	set := func(name, value string) {
		if req.Header.Get(name) == "" {
			texts = append(texts, value)
			req.Header[name] = texts[len(texts)-1 : len(texts) : len(texts)]
		}
	}
	set("Idempotency-Key", key)
	set("Pawl-Attempt", attempt)
	headers := t.Headers.Map()
	parent := headers["traceparent"]
	if h.trace != nil {
		parent = h.trace(t)
	}
	if parent != "" && req.Header.Get("Traceparent") == "" {
		set("Traceparent", parent)
		if headers["tracestate"] != "" {
			set("Tracestate", headers["tracestate"])
		}
	}
	if req.Header.Get("Traceparent") == "" {
		set("Traceparent", traceOf(key, attempt))
	}
	set("User-Agent", "pawl")
	if left, ok := worker.Remaining(ctx); ok {
		set("Pawl-Deadline-Ms", strconv.FormatInt(left.Milliseconds(), 10))
	}
}

// traceOf makes a trace of hashes.
func traceOf(key, attempt string) string {
	trace := sha256.Sum256([]byte(key))
	span := sha256.Sum256([]byte(key + "-" + attempt))
	text := append(make([]byte, 0, 55), "00-"...)
	text = append(hex.AppendEncode(text, trace[:16]), '-')
	text = append(hex.AppendEncode(text, span[:8]), "-01"...)
	return string(text)
}

// Texts is one text or several. In JSON it is a text or a list of texts.
type Texts []string

// UnmarshalJSON reads a text or a list of texts.
func (t *Texts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	var one string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*t = Texts{one}
	return nil
}

// Statuses is a set of status codes and classes. A class is the negative of its first digit: -2 is 2xx. In JSON it is a
// number, a text, or a list of both: [200, "3xx"].
type Statuses []int

// UnmarshalJSON reads codes and classes.
func (s *Statuses) UnmarshalJSON(data []byte) error {
	var items []any
	if len(data) == 0 || data[0] != '[' {
		data = append(append([]byte{'['}, data...), ']')
	}
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	for _, item := range items {
		var code int
		switch v := item.(type) {
		case float64:
			code = int(v)
		case string:
			if len(v) == 3 && strings.EqualFold(v[1:], "xx") && v[0] >= '1' && v[0] <= '5' {
				*s = append(*s, -int(v[0]-'0'))
				continue
			}
			code, _ = strconv.Atoi(v)
		}
		if code < 100 || code > 599 {
			return fmt.Errorf(`%v is not a status; use a code such as 200, or a class such as "2xx"`, item)
		}
		*s = append(*s, code)
	}
	return nil
}

func (s Statuses) has(code int) bool {
	for _, want := range s {
		if want == code || want == -(code/100) {
			return true
		}
	}
	return len(s) == 0 && code/100 == 2
}
