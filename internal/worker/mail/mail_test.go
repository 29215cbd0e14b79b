package mail

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"mime/quotedprintable"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

type lives struct{ output int }

func (l *lives) Output()          { l.output++ }
func (l *lives) Heartbeat([]byte) {}

// send sends the message to the server; the payload's own server is left out.
func send(ctx context.Context, t *testing.T, s *server, p map[string]any) worker.Result {
	t.Helper()
	payload := map[string]any{
		"server": s.address, "from": "Shop <shop@shop.example>", "to": "ops@shop.example",
		"subject": "Stock", "text": "x",
	}
	for key, value := range p {
		payload[key] = value
	}
	text, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	task := core.Task{Payload: text, Token: core.Token{Run: core.RunID{1}, Step: 2, Attempt: 3}}
	return New(Config{Roots: s.roots}).Execute(ctx, &task, &lives{})
}

// parse reads a message as a mail program does.
func parse(t *testing.T, text string) (header netmail.Header, body string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, strings.ReplaceAll(string(data), "\r\n", "\n")
}

func TestMessage(t *testing.T) {
	s := (&server{}).start(t)
	res := send(t.Context(), t, s, map[string]any{
		"user": "shop", "password": "s3cret", "from": "Größe <shop@shop.example>",
		"to":      []string{"ops@shop.example, Ada <ada@shop.example>", "bob@shop.example"},
		"subject": "Stück\r\nBcc: eve@evil.example\r\n\r\nhello",
		"text":    ".\nempty: ä\n..\n" + strings.Repeat("long ", 300),
	})
	if res.Failure != nil {
		t.Fatal(res.Failure)
	}
	auth := "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00shop\x00s3cret"))
	want := []string{
		"EHLO localhost", "STARTTLS", "EHLO localhost", auth, "MAIL FROM:<shop@shop.example>",
		"RCPT TO:<ops@shop.example>", "RCPT TO:<ada@shop.example>", "RCPT TO:<bob@shop.example>", "DATA", "QUIT",
	}
	if commands, _ := s.seen(); !slices.Equal(commands, want) {
		t.Errorf("the server was told\n%q, want\n%q", commands, want)
	}
	_, messages := s.seen()
	header, body := parse(t, messages[0])
	if subject, _ := new(mime.WordDecoder).DecodeHeader(header.Get("Subject")); subject !=
		"Stück Bcc: eve@evil.example hello" {
		t.Errorf("the subject is %q", subject)
	}
	if header.Get("Bcc") != "" {
		t.Error("a value added a header")
	}
	if to, err := header.AddressList("To"); err != nil || len(to) != 3 || to[1].Name != "Ada" {
		t.Errorf("it is to %v (%v)", to, err)
	}
	if from, err := header.AddressList("From"); err != nil || from[0].Name != "Größe" {
		t.Errorf("it is from %v (%v)", from, err)
	}
	if _, err := header.Date(); err != nil {
		t.Error(err)
	}
	if wanted := ".\nempty: ä\n..\n" + strings.Repeat("long ", 300) + "\n"; body != wanted {
		t.Errorf("the text is %q", body)
	}
	for line := range strings.Lines(messages[0]) {
		if len(line) > 200 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if !bytes.Contains(res.Output, []byte(`"ada@shop.example"`)) ||
		!bytes.Contains(res.Output, []byte(strings.Trim(header.Get("Message-ID"), "<>"))) {
		t.Errorf("the output is %s", res.Output)
	}
}

// TestSameMessage checks that a receiver can tell that the message of another attempt is the same one.
func TestSameMessage(t *testing.T) {
	s := (&server{}).start(t)
	for range 2 {
		if res := send(t.Context(), t, s, nil); res.Failure != nil {
			t.Fatal(res.Failure)
		}
	}
	_, messages := s.seen()
	first, _ := parse(t, messages[0])
	second, _ := parse(t, messages[1])
	if id := first.Get("Message-ID"); id == "" || id != second.Get("Message-ID") {
		t.Errorf("the ids are %q and %q", id, second.Get("Message-ID"))
	}
}

func TestTLS(t *testing.T) {
	own, other := (&server{implicit: true}).start(t), (&server{plain: true}).start(t)
	if res := send(t.Context(), t, own, map[string]any{"tls": "implicit"}); res.Failure != nil {
		t.Errorf("implicit: %v", res.Failure)
	}
	if f := send(t.Context(), t, other, nil).Failure; f == nil || f.Type != "tls" || f.Kind != policy.KindFailed ||
		!strings.Contains(f.Message, "offers no TLS") {
		t.Errorf("a server without TLS: %+v", f)
	}
	if res := send(t.Context(), t, other, map[string]any{"tls": "none"}); res.Failure != nil {
		t.Errorf("tls: none: %v", res.Failure)
	}
	_, roots := certificate(t)
	stranger := &server{address: own.address, roots: roots}
	if f := send(t.Context(), t, stranger, map[string]any{"tls": "implicit"}).Failure; f == nil ||
		f.Type != "connection" || !strings.Contains(f.Message, "certificate") {
		t.Errorf("a certificate of nobody known: %+v", f)
	}
	_, first := own.seen()
	if _, second := other.seen(); len(first) != 1 || len(second) != 1 {
		t.Errorf("%d and %d messages", len(first), len(second))
	}
}

// TestAddress checks that an address of IPv6 may be written with or without brackets where no port follows.
func TestAddress(t *testing.T) {
	for server, want := range map[string]string{
		"smtp.example": "smtp.example 587", "smtp.example:25": "smtp.example 25", "[::1]": "::1 587",
		"::1": "::1 587", "[::1]:25": "::1 25",
	} {
		host, port, err := (&Payload{Server: server}).address()
		if got := host + " " + port; err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", server, got, err, want)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers map[string]string
		payload map[string]any
		kind    policy.Kind
		typ     string
		code    int
	}{
		{"later", map[string]string{"RCPT": "451 later"}, nil, policy.KindError, "smtp", 451},
		{"nobody", map[string]string{"RCPT": "550 nobody"}, nil, policy.KindFailed, "smtp", 550},
		{
			"password",
			map[string]string{"AUTH": "535 no"},
			map[string]any{"user": "a", "password": "b"},
			policy.KindFailed, "smtp", 535,
		},
		{"from", nil, map[string]any{"from": "x\r\nRCPT TO:<eve>"}, policy.KindFailed, "invalid_payload", 0},
		{"to", nil, map[string]any{"to": []string{}}, policy.KindFailed, "invalid_payload", 0},
		{"tls", nil, map[string]any{"tls": "maybe"}, policy.KindFailed, "invalid_payload", 0},
		{"server", nil, map[string]any{"server": ":25"}, policy.KindFailed, "invalid_payload", 0},
		{"away", nil, map[string]any{"server": "127.0.0.1:1"}, policy.KindError, "connection", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := (&server{answers: c.answers}).start(t)
			f := send(t.Context(), t, s, c.payload).Failure
			if f == nil || f.Kind != c.kind || f.Type != c.typ || f.Code != c.code {
				t.Errorf("the failure is %+v", f)
			}
			if _, messages := s.seen(); len(messages) > 0 {
				t.Error("a message was sent")
			}
		})
	}
}

// TestStopped checks that an attempt that is told to stop does not wait for the server.
func TestStopped(t *testing.T) {
	s := (&server{silent: true}).start(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.reached
		cancel()
	}()
	if f := send(ctx, t, s, nil).Failure; f == nil || f.Type != "stopped" {
		t.Errorf("the failure is %+v", f)
	}
}
