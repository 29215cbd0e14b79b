package flow

import (
	"net"
	netmail "net/mail"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Mail sends a message by SMTP.
type Mail struct {
	Server         tree.Value // host or host:port; the port's default is 587
	TLS            tree.Value // starttls, which is the default, implicit, which is the mode of port 465, or none
	User, Password tree.Value
	From, To       tree.Value // addresses; To is a text or a list of texts, each with one address or several
	Subject, Text  tree.Value
	ordinary
}

var (
	mailKeys = []string{"server", "tls", "user", "password", "from", "to", "subject", "text"}
	mailTLS  = []string{"starttls", "implicit", "none"}
)

func (*Mail) kind() string { return "mail" }

func (m *Mail) read(p *parsing, n *tree.Node) {
	if !p.object(n, "mail", mailKeys) {
		if n.Kind == tree.Null {
			p.Fail(n.Pos, "write mail: {server: smtp.example, from: …, to: …}", "mail has no server")
		}
		return
	}
	m.Server, m.TLS = p.textValue(n.Get("server"), "server"), p.textValue(n.Get("tls"), "tls")
	m.User, m.Password = p.textValue(n.Get("user"), "user"), p.textValue(n.Get("password"), "password")
	m.From, m.To = p.textValue(n.Get("from"), "from"), p.recipients(n.Get("to"))
	m.Subject, m.Text = p.textValue(n.Get("subject"), "subject"), p.textValue(n.Get("text"), "text")
	for _, key := range []string{"server", "from", "to"} {
		if n.Get(key) == nil {
			p.missing(n, mailKeys, "", "mail has no %s", key)
		}
	}
	if server := n.Get("server"); plainText(server) {
		if host, _, err := net.SplitHostPort(server.Text); err == nil && host == "" || server.Text == "" {
			p.Fail(server.Pos, "write smtp.example:587", "server %q names no host", server.Text)
		}
	}
	if tls := n.Get("tls"); plainText(tls) && !contains(mailTLS, tls.Text) {
		p.Fail(tls.Pos, "", "tls is %s, not %s", orList(mailTLS), tree.Describe(tls))
	}
	if from := n.Get("from"); plainText(from) {
		if _, err := netmail.ParseAddress(from.Text); err != nil {
			p.Fail(from.Pos, "write ops@shop.example, or Ops <ops@shop.example>", "from %q is not an address",
				tree.Shorten(from.Text))
		}
	}
	if password := n.Get("password"); password != nil && n.Get("user") == nil {
		p.Fail(n.Key("password"), "add user", "a password without a user has no effect")
	}
}

// plainText reports whether a node is a text without expressions.
func plainText(n *tree.Node) bool {
	return n != nil && n.Kind == tree.Text && !expr.HasExpression(n.Text)
}

// recipients reads an address, or a list of them.
func (p *parsing) recipients(n *tree.Node) tree.Value {
	if n == nil || n.Kind == tree.Null {
		return tree.Value{}
	}
	items := []*tree.Node{n}
	if n.Kind == tree.List {
		if items = n.Items; len(items) == 0 {
			p.Fail(n.Pos, "", "to names nobody")
		}
	}
	for _, item := range items {
		if item.Kind != tree.Text {
			p.Fail(item.Pos, "", "to is an address or a list of them, not %s", tree.Describe(item))
		} else if plainText(item) {
			if _, err := netmail.ParseAddressList(item.Text); err != nil {
				p.Fail(item.Pos, "write ops@shop.example, or Ops <ops@shop.example>", "to %q is not an address",
					tree.Shorten(item.Text))
			}
		}
	}
	return tree.ValueOf(n)
}

// mail compiles a message.
func (b *builder) mail(a *Mail, vars expr.Vars) *expr.Template {
	o := b.compiler.Object(vars)
	for _, field := range a.fields() {
		o.Text(field.name, field.value)
	}
	return o.Done()
}

type mailField struct {
	name  string
	value tree.Value
}

func (a *Mail) fields() []mailField {
	values := []tree.Value{a.Server, a.TLS, a.User, a.Password, a.From, a.To, a.Subject, a.Text}
	out := make([]mailField, len(mailKeys))
	for i, name := range mailKeys {
		out[i] = mailField{name, values[i]}
	}
	return out
}

func (m *Mail) encode() tree.Value {
	out := object{}
	for _, field := range m.fields() {
		out.put(field.name, field.value)
	}
	return out.value()
}

func (*Mail) spec(spec *core.StepSpec) { spec.Type = "mail" }

func (m *Mail) compile(b *builder, p *plan, _ *Step, vars expr.Vars) {
	b.placeholders = false
	p.payload = b.mail(m, vars|expr.VarPlaceholders)
	p.refers = b.placeholders
}

func (*Mail) pointless(kind policy.LimitKind, _ bool) (severity Severity, code, why string) {
	return noHeartbeat(kind)
}

func (m *Mail) withNotice() Action {
	out := *m
	if out.Subject.IsZero() {
		out.Subject = V("${{ notice.subject }}")
	}
	if out.Text.IsZero() {
		out.Text = V("${{ notice.text }}\n")
	}
	return &out
}
