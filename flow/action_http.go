package flow

import (
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// HTTP makes a request.
type HTTP struct {
	Method, URL    tree.Value
	Headers, Query tree.Value
	JSON, Body     tree.Value // the request's body, as data or as text, or
	File           tree.Value // the file it is read from
	Expect         tree.Value // a list of status codes that are a success: 200, "2xx"
	ordinary
}

var (
	httpKeys         = []string{"method", "url", "headers", "query", "json", "body", "file", "expect"}
	httpSettingsKeys = []string{"headers", "expect"}
)

func (*HTTP) kind() string { return "http" }

func (h *HTTP) read(p *parsing, n *tree.Node) {
	if n.Kind == tree.Text {
		p.url(n)
		h.URL = tree.ValueOf(n)
		return
	}
	if !p.object(n, "http", httpKeys) {
		if n.Kind == tree.Null {
			p.Fail(n.Pos, "", "http has no url")
		}
		return
	}
	*h = *p.httpFields(n)
	h.Method = p.textValue(n.Get("method"), "method")
	h.URL = p.textValue(n.Get("url"), "url")
	p.method(n.Get("method"))
	p.url(n.Get("url"))
	if n.Get("url") == nil {
		p.missing(n, httpKeys, "", "http has no url")
	}
	h.Query = p.mapping(n.Get("query"), "query")
	h.JSON = tree.ValueOf(n.Get("json"))
	h.Body, h.File = p.textValue(n.Get("body"), "body"), p.textValue(n.Get("file"), "file")
	var given string
	for _, key := range []string{"json", "body", "file"} {
		switch {
		case n.Get(key) == nil:
		case given != "":
			p.Fail(n.Key(key), "", "http takes json, body or file, not both %s and %s", given, key)
		default:
			given = key
		}
	}
}

func (p *parsing) httpFields(n *tree.Node) *HTTP {
	return &HTTP{Headers: p.headers(n.Get("headers")), Expect: p.expect(n.Get("expect"))}
}

// expect reads status codes: 200, "2xx", or a list of them.
func (p *parsing) expect(n *tree.Node) tree.Value {
	if n == nil || n.Kind == tree.Null {
		return tree.Value{}
	}
	list := n
	if n.Kind != tree.List {
		list = &tree.Node{Kind: tree.List, Pos: n.Pos, Items: []*tree.Node{n}}
	}
	for _, item := range list.Items {
		code, _ := item.Scalar.(int)
		t := item.Text
		class := item.Kind == tree.Text && len(t) == 3 && t[0] >= '1' && t[0] <= '5' && (t[1:] == "xx" || t[1:] == "XX")
		if (item.Kind != tree.Number || code < 100 || code > 599) && !class {
			p.Fail(item.Pos, `write 200 or "2xx"`, "expect takes status codes, not %s", tree.Describe(item))
		}
	}
	return tree.ValueOf(list)
}

// methods are those that a misspelt method may mean. Servers may know others.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

// method checks a method that is not an expression.
func (p *parsing) method(n *tree.Node) {
	if n == nil || n.Kind == tree.Null || n.Kind == tree.List || n.Kind == tree.Mapping {
		return
	}
	text, err := tree.TextOf(n.Any())
	if err != nil || expr.HasExpression(text) {
		return
	}
	upper := strings.ToUpper(text)
	switch {
	case !isToken(text):
		p.Fail(n.Pos, "use "+orList(methods[:6]), "method %q is not an HTTP method", tree.Shorten(text))
	case upper == "CONNECT":
		p.Fail(n.Pos, "use "+orList(methods[:6]), "CONNECT opens a tunnel and is not a request that a step can make")
	default:
		if hint := nearest.Hint(upper, methods); hint != "" && !contains(otherMethods, upper) {
			p.Fail(n.Pos, hint, "there is no method %q", text)
		}
	}
}

// otherMethods are registered methods that are spelt like others and are not mistakes.
var otherMethods = []string{"GET", "PUT", "POST", "COPY", "LOCK", "MOVE", "BIND", "LINK", "REPORT", "ACL", "QUERY"}

// isToken reports whether a text may be a method or the name of a header.
func isToken(text string) bool {
	return text != "" && strings.IndexFunc(text, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	}) < 0
}

// url checks the known parts of a URL: all of it if it has no expressions, else the scheme before the first one.
func (p *parsing) url(n *tree.Node) {
	if n == nil || n.Kind != tree.Text {
		return
	}
	const write = "write https://host/path"
	text, more := n.Text, false
	if i := strings.Index(text, "${{"); i >= 0 {
		text, more = text[:i], true
		if scheme, _, found := strings.Cut(text, "://"); found && !strings.EqualFold(scheme, "http") &&
			!strings.EqualFold(scheme, "https") {
			p.Fail(n.Pos, "use http or https", "url %q has the scheme %q", tree.Shorten(n.Text), scheme)
		}
	}
	switch u, err := url.Parse(text); {
	case more:
	case text == "":
		p.Fail(n.Pos, write, "the url is empty")
	case err != nil:
		p.Fail(n.Pos, write, "url %q cannot be read: %s", tree.Shorten(text), reasonOf(err))
	case u.Scheme == "":
		p.Fail(n.Pos, write, "url %q has no scheme", tree.Shorten(text))
	case u.Scheme != "http" && u.Scheme != "https":
		p.Fail(n.Pos, "use http or https", "url %q has the scheme %q", tree.Shorten(text), u.Scheme)
	case u.Hostname() == "":
		p.Fail(n.Pos, write, "url %q names no host", tree.Shorten(text))
	}
}

// reasonOf takes the reason out of an error about a URL, which repeats the URL.
func reasonOf(err error) string {
	if e, ok := err.(*url.Error); ok { //nolint:errorlint // url.Parse never wraps it
		return e.Err.Error()
	}
	return err.Error()
}

// ownHeaders are set by the request itself: a step's value would have no effect.
var ownHeaders = []string{"Content-Length", "Transfer-Encoding", "Trailer"}

// headers reads the headers of a request.
func (p *parsing) headers(n *tree.Node) tree.Value {
	v := p.mapping(n, "headers")
	if n == nil || n.Kind != tree.Mapping {
		return v
	}
	seen := map[string]string{}
	for _, f := range n.Fields {
		lower := strings.ToLower(f.Name)
		own := slices.IndexFunc(ownHeaders, func(h string) bool { return strings.EqualFold(h, f.Name) })
		text, _ := tree.TextOf(f.Value.Any())
		switch {
		case !isToken(f.Name):
			p.Fail(f.Pos, "", "%q is not the name of a header", tree.Shorten(f.Name))
		case own >= 0:
			p.Fail(f.Pos, "leave it out", "%s is set by the request itself, so this has no effect", ownHeaders[own])
		case seen[lower] != "" && seen[lower] != f.Name:
			p.Fail(f.Pos, "", "the header %s is given twice: %s and %s", lower, seen[lower], f.Name)
		case strings.IndexFunc(text, isControl) >= 0:
			p.Fail(f.Value.Pos, "", "the header %s has a line break or another control character in its value", f.Name)
		}
		seen[lower] = f.Name
	}
	return v
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

func (h *HTTP) encode() tree.Value {
	out := object{}
	out.put("method", h.Method)
	out.put("url", h.URL)
	out.put("headers", h.Headers)
	out.put("query", h.Query)
	if !h.JSON.IsZero() {
		out.must("json", h.JSON)
	}
	out.put("body", h.Body)
	out.put("file", h.File)
	out.put("expect", h.Expect)
	return out.value()
}

func (*HTTP) spec(spec *core.StepSpec) { spec.Type = "http" }

func (h *HTTP) compile(b *builder, p *plan, s *Step, vars expr.Vars) {
	b.placeholders = false
	p.payload = b.http(h.with(b.settings(s)), vars|expr.VarPlaceholders)
	p.refers = b.placeholders
}

func (b *builder) http(a *HTTP, vars expr.Vars) *expr.Template {
	o := b.compiler.Object(vars)
	o.Text("method", a.Method)
	o.Add("url", b.compiler.URL(tree.NodeOf(a.URL), vars))
	o.Text("headers", a.Headers)
	o.Text("query", a.Query)
	o.Data("json", a.JSON)
	o.Text("body", a.Body)
	o.Text("file", a.File)
	o.Data("expect", a.Expect)
	return o.Done()
}

func (h *HTTP) over(settings Settings) Action { return h.with(settings) }

// with returns the action with the settings of its service and of the document.
func (h *HTTP) with(settings Settings) *HTTP {
	if settings.HTTP == nil {
		return h
	}
	return overHTTP(settings.HTTP, h)
}

func overHTTP(base, over *HTTP) *HTTP {
	if base == nil {
		return over
	}
	out := *over
	out.Headers = overMapping(base.Headers, over.Headers)
	if out.Expect.IsZero() {
		out.Expect = base.Expect
	}
	return &out
}

func (*HTTP) pointless(kind policy.LimitKind, _ bool) (severity Severity, code, why string) {
	return noHeartbeat(kind)
}

// noHeartbeat explains which limits are useless for a request.
func noHeartbeat(kind policy.LimitKind) (severity Severity, code, why string) {
	if kind == policy.LimitHeartbeat {
		return Warning, lintNoSignOfLife,
			"a request gives no heartbeat, so heartbeat ends it in any case; use inactivity"
	}
	return noEvent(kind)
}

func (h *HTTP) withNotice() Action {
	method, _ := h.Method.Text()
	if !h.JSON.IsZero() || !h.Body.IsZero() || !h.File.IsZero() || method == "GET" || method == "HEAD" {
		return h
	}
	out := *h
	out.JSON = V(map[string]any{"text": noticeText}) // as Slack, Mattermost and others read it
	return &out
}
