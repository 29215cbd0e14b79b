package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// Client is the service of a server.
type Client struct {
	base  string // http://host:port, without a slash at its end
	name  string // the server's name in errors
	http  *http.Client
	token string // the token that it shows; empty if there is none
	keys  bool   // starts without a key get one
	// the namespace of its requests; empty: that of its token, or the default one.
	namespace string

	answered atomic.Bool  // the server has answered something
	shown    atomic.Int64 // the last time that its clock showed, an api.Time; 0: its clock runs
}

// NamespaceHeader names the namespace that a request is for, where the caller may work in several.
const NamespaceHeader = "Pawl-Namespace"

var _ api.Service = (*Client)(nil)

// MaxPage is how many runs one page of a list can have.
const MaxPage = 1000

// waitAtMost is how long one request of Wait waits. A longer one could be cut by a proxy on the way.
const waitAtMost = 30 * time.Second

// Dialer opens a connection to the server.
type Dialer func(ctx context.Context) (net.Conn, error)

// New returns the client of a server: http://127.0.0.1:7295. It does not connect yet.
func New(address string) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, &api.Error{
			Code:    api.CodeInvalid,
			Message: fmt.Sprintf("%q is not the address of a server; write it as http://127.0.0.1:7295", address),
		}
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(
			"%q has more than a scheme, a host and a port; write it as http://127.0.0.1:7295", address)}
	}
	base := u.Scheme + "://" + u.Host
	return &Client{base: base, name: "the server at " + base, http: through(transport(nil))}, nil
}

// Over returns the client of a server that is reached through a dialer, such as one of a local socket. name identifies
// the server in errors.
func Over(name string, dial Dialer) *Client {
	return &Client{base: "http://pawl", name: name, http: through(transport(dial))}
}

// maxRedirects is how many redirects are followed for one request.
const maxRedirects = 10

// through returns a client that follows a redirect only if the request stays what it is: a POST that becomes a GET
// would be answered as if it had been carried out.
func through(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if req.Method != via[0].Method || len(via) > maxRedirects {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

func transport(dial Dialer) *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 10 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
	}
	if dial != nil {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	}
	return t
}

// Show makes the client send a token with every request, and trust the certificates of roots; nil: those that the
// system trusts. Call it before the first request. Errors: CodeInvalid (the token would be sent without encryption to
// another machine).
func (c *Client) Show(token string, roots *x509.CertPool) error {
	if u, err := url.Parse(c.base); token != "" && err == nil && u.Scheme == "http" && !isOwnMachine(u.Hostname()) {
		return &api.Error{
			Code: api.CodeInvalid, Message: "a token is not sent without encryption to " + u.Host,
			Hint: "write the address with https://",
		}
	}
	c.token = token
	if t, ok := c.http.Transport.(*http.Transport); ok && roots != nil { // never one of Through
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		t.ForceAttemptHTTP2 = true
	}
	return nil
}

// In makes the client work in a namespace. Call it before the first request.
func (c *Client) In(namespace string) { c.namespace = namespace }

// isOwnMachine reports whether a host, without a port, is this machine. The name pawl stands for a dialer's server.
func isOwnMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || host == "pawl" || ip != nil && ip.IsLoopback()
}

// Through makes the client send its requests through a transport of the caller's. Call it before the first request.
func (c *Client) Through(t http.RoundTripper) { c.http = through(t) }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ready asks the server whether it takes work. Errors: CodeClosed, CodeStalled, CodeCancelled.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil, nil)
	return err
}

// Carry makes the engine carry a run on that rests there, with its family. Errors: CodeNotFound.
func (c *Client) Carry(ctx context.Context, name string) error {
	path, err := runPath(name, "carry")
	if err == nil {
		_, err = c.do(ctx, http.MethodPost, path, nil, nil)
	}
	return err
}

func (c *Client) Start(ctx context.Context, r api.StartRequest) (out api.Started, err error) {
	return c.start(ctx, bodyOf(r))
}

// How often a start is sent again if it is unknown whether it was accepted, and after which time.
const (
	startTries = 3
	startPause = 500 * time.Millisecond
)

// KeyStarts makes the client give a key to starts that have none, and send them again if it is unknown whether they
// were accepted: the workflow id alone would not keep a short run from being started twice. Call it before the first
// request.
func (c *Client) KeyStarts() { c.keys = true }

// start sends a start.
func (c *Client) start(ctx context.Context, body StartBody) (out api.Started, err error) {
	own := c.keys && body.Key == ""
	if own {
		body.Key = rand.Text()
	}
	for try := 1; ; try++ {
		_, err = c.do(ctx, http.MethodPost, join("runs"), body, &out)
		if out.Existing && own && try > 1 && !body.UseExisting {
			out.Existing = false // it is the run that this call has started
		}
		if !c.keys || api.CodeOf(err) != api.CodeUncertain || try == startTries {
			return out, err
		}
		select {
		case <-time.After(startPause << (try - 1)):
		case <-ctx.Done():
			return out, err
		}
	}
}

// StartNamed starts a workflow that the server knows by its name. Errors: those of Start, CodeNotFound.
func (c *Client) StartNamed(ctx context.Context, workflow string, r api.StartRequest) (out api.Started, err error) {
	body := bodyOf(r)
	body.Workflow, body.Definition = workflow, nil
	return c.start(ctx, body)
}

// Runs implements api.Service. It requests several pages if q asks for more runs than one page has.
func (c *Client) Runs(ctx context.Context, q api.Query) (api.Page, error) {
	wanted := q.Limit
	q.Limit = min(wanted, MaxPage)
	all, err := c.page(ctx, q)
	for full := len(all.Runs) == q.Limit; err == nil && full && all.Next != "" && len(all.Runs) < wanted; {
		q.Cursor, q.Limit = all.Next, min(wanted-len(all.Runs), MaxPage)
		var more api.Page
		if more, err = c.page(ctx, q); err == nil {
			full = len(more.Runs) == q.Limit
			all.Runs, all.Next = append(all.Runs, more.Runs...), more.Next
		}
	}
	if err != nil {
		return api.Page{}, err
	}
	return all, nil
}

func (c *Client) Counts(ctx context.Context, q api.Query) ([]api.Count, error) {
	q.Limit, q.Cursor, q.After = 0, "", ""
	path := join("counts")
	if v := values(q).Encode(); v != "" {
		path += "?" + v
	}
	var out []api.Count
	_, err := c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

func (c *Client) page(ctx context.Context, q api.Query) (out api.Page, err error) {
	path := join("runs")
	if v := values(q).Encode(); v != "" {
		path += "?" + v
	}
	_, err = c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// values writes a query as the parameters of a URL.
func values(q api.Query) url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Add(name, value)
		}
	}
	set("workflow", q.Workflow)
	set("workflowId", q.WorkflowID)
	for _, p := range q.Phases {
		v.Add("phase", string(p))
	}
	for key, value := range q.Labels {
		v.Add("label", key+"="+value)
	}
	set("createdFrom", q.CreatedFrom.String())
	set("createdBefore", q.CreatedBefore.String())
	if q.Stuck {
		set("stuck", "true")
	}
	if q.Resting {
		set("resting", "true")
	}
	set("parent", q.Parent)
	if q.Top {
		set("top", "true")
	}
	if q.DeadlineWithin > 0 {
		set("deadlineWithin", q.DeadlineWithin.String())
	}
	if q.Retrying {
		set("retrying", "true")
	}
	if q.WillMiss {
		set("willMiss", "true")
	}
	for path, value := range q.Input {
		v.Add("input", path+"="+value)
	}
	set("q", q.Text)
	if q.Limit > 0 {
		set("limit", strconv.Itoa(q.Limit))
	}
	set("cursor", q.Cursor)
	set("after", q.After)
	return v
}

// Wait implements api.Service. It asks again until the run has ended.
func (c *Client) Wait(ctx context.Context, name string) (api.Outcome, error) {
	path, err := runPath(name, "outcome")
	if err != nil {
		return api.Outcome{}, err
	}
	for {
		var out api.Outcome
		status, err := c.do(ctx, http.MethodGet, path+"?wait="+waitAtMost.String(), nil, &out)
		if err != nil {
			return api.Outcome{}, err
		}
		if status != http.StatusAccepted {
			return out, nil
		}
	}
}

func (c *Client) Send(ctx context.Context, name string, s api.SendRequest) error {
	path, err := runPath(name, "events")
	if err == nil {
		_, err = c.do(ctx, http.MethodPost, path, s, nil)
	}
	return err
}

func (c *Client) Operate(ctx context.Context, name string, op api.Operation) error {
	last, known := pathOf(op.Operation, op.Step != "")
	if !known {
		return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf("there is no operation %q", op.Operation)}
	}
	parts := []string{last}
	if op.Step != "" {
		parts = []string{"steps", op.Step, last}
	}
	path, err := runPath(name, parts...)
	if err == nil {
		_, err = c.do(ctx, http.MethodPost, path, operateBodyOf(op), nil)
	}
	return err
}

func (c *Client) Restart(ctx context.Context, name string, r api.RestartRequest) (out api.Started, err error) {
	path, err := runPath(name, "restart")
	if err == nil {
		_, err = c.do(ctx, http.MethodPost, path, r, &out)
	}
	return out, err
}

func (c *Client) History(ctx context.Context, name string) ([]byte, error) {
	path, err := runPath(name, "history")
	if err != nil {
		return nil, err
	}
	_, text, err := c.ask(ctx, http.MethodGet, path, nil)
	return text, err
}

func (c *Client) Definition(ctx context.Context, id string) (out api.Definition, err error) {
	if id == "" {
		return out, &api.Error{Code: api.CodeInvalid, Message: `"" is not the id of a definition`}
	}
	_, err = c.do(ctx, http.MethodGet, join("definitions", id), nil, &out)
	return out, err
}

func (c *Client) Stats(ctx context.Context) (out api.Stats, err error) {
	_, err = c.do(ctx, http.MethodGet, join("stats"), nil, &out)
	return out, err
}

// runPath makes the path of something of a run. An empty name would be the path of something else.
func runPath(name string, parts ...string) (string, error) {
	if name == "" {
		return "", api.NoName()
	}
	return join(append([]string{"runs", name}, parts...)...), nil
}

// do sends one request and reads its answer into out. It returns the status of an answer that is not a problem.
func (c *Client) do(ctx context.Context, method, path string, in, out any) (int, error) {
	status, body, err := c.ask(ctx, method, path, in)
	if err != nil || out == nil {
		return status, err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return 0, &api.Error{
			Code: api.CodeInternal, Message: fmt.Sprintf("%s answered what cannot be read: %v", c.name, err), Err: err,
		}
	}
	return status, nil
}

// ask sends one request and returns its answer, unless that is a problem.
func (c *Client) ask(ctx context.Context, method, path string, in any) (status int, body []byte, err error) {
	res, err := c.send(ctx, method, path, "application/json", in)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	switch {
	case err != nil:
		return 0, nil, c.broken(ctx, method, true, err)
	case res.StatusCode >= 300:
		return 0, nil, readProblem(c.name, res, body)
	}
	return res.StatusCode, body, nil
}

// send sends one request. The caller closes the body of the answer.
func (c *Client) send(ctx context.Context, method, path, accept string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(in); err != nil {
			return nil, &api.Error{
				Code: api.CodeInvalid, Message: "the request cannot be written: " + err.Error(), Err: err,
			}
		}
		body = &text
	}
	req, err := newRequest(ctx, c, method, path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return exchange(c, req)
}

// newRequest makes a request of a client's caller.
func newRequest(ctx context.Context, c *Client, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, &api.Error{Code: api.CodeInvalid, Err: err}
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.namespace != "" {
		req.Header.Set(NamespaceHeader, c.namespace)
	}
	return req, nil
}

// exchange sends a request. The caller closes the body of the answer.
func exchange(c *Client, req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		var dial *net.OpError
		sent := !errors.As(err, &dial) || dial.Op != "dial"
		return nil, c.broken(req.Context(), req.Method, sent, err)
	}
	c.note(res.Header)
	return res, nil
}

// broken returns the error of a request that got no answer. It is unknown whether a change that was sent was made.
func (c *Client) broken(ctx context.Context, method string, sent bool, err error) error {
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err
	}
	switch {
	case ctx.Err() != nil:
		return &api.Error{Code: api.CodeCancelled, Err: ctx.Err()}
	case sent && method != http.MethodGet:
		return &api.Error{
			Code: api.CodeUncertain, Message: fmt.Sprintf("%s did not answer: %v", c.name, err), Err: err,
			Hint: "it is not known whether this was saved; it is safe to repeat it with the same key",
		}
	default:
		return &api.Error{
			Code: api.CodeClosed, Message: fmt.Sprintf("%s cannot be reached: %v", c.name, err), Err: err,
			Hint: "nothing was changed; is it running?",
		}
	}
}
