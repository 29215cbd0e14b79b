// Package mail executes the mail tasks of flows' steps: each sends one message by SMTP. It is separate from package
// worker, so that a program without flows does not link net/smtp.
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// Config configures an Executor. Zero values are useful.
type Config struct {
	// Secrets finds what the payload of a task refers to. Default: there are none.
	Secrets func(*core.Task) *secret.Store
	// Roots are the authorities that servers' certificates come from. Default: the system's.
	Roots *x509.CertPool
}

// Payload is the payload of a mail task.
type Payload struct {
	Server   string `json:"server"`         // host or host:port
	TLS      string `json:"tls,omitempty"`  // starttls, implicit or none; default: starttls, with port 465 implicit
	User     string `json:"user,omitempty"` // empty: the server does not ask who sends
	Password string `json:"password,omitempty"`
	From     string `json:"from"`
	To       Texts  `json:"to"` // each may hold several addresses
	Subject  string `json:"subject,omitempty"`
	Text     string `json:"text,omitempty"`
	// Placeholders are the placeholders in the texts.
	Placeholders *secret.Placeholders `json:"placeholders,omitempty"`
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

// The ways to a server.
const (
	startTLS = "starttls"
	implicit = "implicit"
	plain    = "none"
)

// patience bounds the whole talk with a server, also where the step has no limit.
const patience = 2 * time.Minute

// Executor sends messages, one for each attempt. All attempts of a step have the same Message-ID: of a message that was
// accepted although its attempt failed, the receiver can recognise the second copy.
//
// The output is {"messageId", "to"}. An answer of 4xx is a failure of kind error and type smtp, which may go away; one
// of 5xx is of kind failed. A connection that cannot be made, breaks or cannot be trusted is a failure of kind error
// and type connection. A server without TLS, unless that is allowed, is a failure of kind failed and type tls.
type Executor struct{ cfg Config }

// New returns an executor of mail tasks.
func New(cfg Config) *Executor {
	if cfg.Secrets == nil {
		cfg.Secrets = func(*core.Task) *secret.Store { return nil }
	}
	return &Executor{cfg}
}

// Execute sends the message.
func (e *Executor) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	var p Payload
	if err := worker.DecodePayload(t.Payload, &p); err != nil {
		return worker.BadPayload("mail", err)
	}
	if ctx.Err() != nil {
		return worker.Result{Failure: worker.Stopped(ctx)}
	}
	secrets := e.cfg.Secrets(t)
	if err := p.fill(ctx, secrets); err != nil {
		return worker.Result{Failure: worker.NoSecret(ctx, err)}
	}
	res := e.send(ctx, *t, &p, alive)
	worker.Redact(secrets.Redactor(), &res)
	return res
}

// fill replaces the placeholders in the payload.
func (p *Payload) fill(ctx context.Context, store *secret.Store) error {
	texts := []*string{&p.Server, &p.User, &p.Password, &p.From, &p.Subject, &p.Text}
	for i := range p.To {
		texts = append(texts, &p.To[i])
	}
	return p.Placeholders.Fill(ctx, store, texts...)
}

func (e *Executor) send(ctx context.Context, t core.Task, p *Payload, alive worker.Alive) worker.Result {
	m, err := p.message(worker.IdempotencyKey(t.Token))
	if err != nil {
		return worker.BadPayload("mail", err)
	}
	host, port, err := p.address()
	if err != nil {
		return worker.BadPayload("mail", err)
	}
	c, err := e.connect(ctx, p, host, port)
	if err == nil {
		defer c.end()
		alive.Output()
		err = c.deliver(p, m, alive)
	}
	if err != nil {
		return worker.Result{Failure: failureOf(ctx, net.JoinHostPort(host, port), err)}
	}
	return worker.Result{Output: worker.EncodeJSON(map[string]any{"messageId": m.id, "to": m.recipients()})}
}

// address splits the server's address and decides how to connect.
func (p *Payload) address() (host, port string, err error) {
	host, port, err = net.SplitHostPort(p.Server)
	if err != nil {
		host, port = p.Server, "587"
		if strings.HasPrefix(host, "[") {
			host = strings.TrimSuffix(host[1:], "]")
		}
	}
	if host == "" {
		return "", "", errors.New("server names no host")
	}
	switch p.TLS {
	case "":
		if p.TLS = startTLS; port == "465" {
			p.TLS = implicit
		}
	case startTLS, implicit, plain:
	default:
		return "", "", fmt.Errorf("tls is starttls, implicit or none, not %q", p.TLS)
	}
	return host, port, nil
}

// client is a connection that ends with the attempt.
type client struct {
	*smtp.Client
	host string
	stop func() bool
}

// end closes the connection. By now the server has accepted the message, or the attempt has failed.
func (c *client) end() {
	c.stop()
	_ = c.Close()
}

var errNoTLS = errors.New("the server offers no TLS; use tls: implicit if it expects TLS from the first byte, " +
	"or tls: none if the message may be read on its way")

// connect opens a connection over which the message may go.
func (e *Executor) connect(ctx context.Context, p *Payload, host, port string) (*client, error) {
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	fail := func(err error) (*client, error) {
		stop()
		return nil, errors.Join(err, conn.Close())
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return fail(err)
	}
	trust := &tls.Config{ServerName: host, RootCAs: e.cfg.Roots, MinVersion: tls.VersionTLS12}
	talk := conn
	if p.TLS == implicit {
		secured := tls.Client(conn, trust)
		if err := secured.HandshakeContext(ctx); err != nil {
			return fail(err)
		}
		talk = secured
	}
	c, err := smtp.NewClient(talk, host)
	if err != nil {
		return fail(err)
	}
	if p.TLS == startTLS {
		if offered, _ := c.Extension("STARTTLS"); !offered {
			return fail(errNoTLS)
		}
		if err := c.StartTLS(trust); err != nil {
			return fail(err)
		}
	}
	return &client{c, host, stop}, nil
}

// deliver sends the message and says good-bye. Once the server has taken the message, nothing is a failure.
func (c *client) deliver(p *Payload, m *message, alive worker.Alive) error {
	if p.User != "" {
		if err := c.Auth(smtp.PlainAuth("", p.User, p.Password, c.host)); err != nil {
			return err
		}
	}
	if err := c.Mail(m.from.Address); err != nil {
		return err
	}
	for _, to := range m.to {
		if err := c.Rcpt(to.Address); err != nil {
			return fmt.Errorf("%s: %w", to.Address, err)
		}
		alive.Output()
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(m.text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit()
	return nil
}

// failureOf explains why a message was not sent.
func failureOf(ctx context.Context, server string, err error) *policy.Failure {
	if ctx.Err() != nil {
		return worker.Stopped(ctx)
	}
	f := &policy.Failure{Kind: policy.KindError, Type: "connection", Message: server + ": " + err.Error()}
	var answer *textproto.Error
	switch {
	case errors.Is(err, errNoTLS), err.Error() == "unencrypted connection":
		f.Kind, f.Type = policy.KindFailed, "tls"
	case errors.As(err, &answer):
		if f.Type, f.Code = "smtp", answer.Code; answer.Code >= 500 {
			f.Kind = policy.KindFailed
		}
	}
	return f
}

func (m *message) recipients() []string {
	out := make([]string, len(m.to))
	for i, to := range m.to {
		out[i] = to.Address
	}
	return out
}

// addresses reads all addresses of some texts.
func addresses(texts Texts) ([]*netmail.Address, error) {
	var out []*netmail.Address
	for _, text := range texts {
		list, err := netmail.ParseAddressList(text)
		if err != nil {
			return nil, fmt.Errorf("to, %q: %w", worker.Shorten(text, 100), err)
		}
		out = append(out, list...)
	}
	if len(out) == 0 {
		return nil, errors.New("to names nobody")
	}
	return out, nil
}
