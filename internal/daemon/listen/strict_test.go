package listen

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/certtest"
	"github.com/pawl-dev/pawl/internal/memnet"
)

const (
	plain  = "GET /one HTTP/1.1\r\nHost: x\r\n\r\n"
	hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
)

// TestStrict checks that requests whose end readers could see in different places are answered with 400, that what
// follows them is no request, and that their connection is closed. All others are served as they are.
func TestStrict(t *testing.T) {
	for _, c := range []struct{ name, sent, want string }{
		{"two requests", plain + hidden, "/one: , /hidden: "},
		{"a body", "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + plain, "/b: hello, /one: "},
		{
			"chunks", "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n" +
				"3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: t\r\n\r\n" + plain, "/c: hello, /one: ",
		},
		{
			"a length and chunks",
			"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" +
				"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "400",
		},
		{
			"two lengths",
			"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na" + hidden, "400",
		},
		{"a list of lengths", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na" + hidden, "400"},
		{"a signed length", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na" + hidden, "400"},
		{
			"two codings", "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" +
				"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden, "400",
		},
		{
			"another coding",
			"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400",
		},
		{
			"chunks of HTTP/1.0",
			"POST /x HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "400",
		},
		{"a line feed alone", "GET /x HTTP/1.1\nHost: x\n\n" + hidden, "400"},
		{"a line feed alone in the header", "GET /x HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n" + hidden, "400"},
		{"a carriage return alone", "GET /x HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n" + hidden, "400"},
		{"a field in two lines", "GET /x HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n" + hidden, "400"},
		{"a space before the colon", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc" + hidden, "400"},
		{"an empty line first", "\r\n" + plain, "400"},
		{
			"a line feed alone before a chunk",
			"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n" + hidden,
			"/x broken",
		},
		{
			"a chunk that is longer",
			"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n" + hidden,
			"/x broken",
		},
		{"a line without an end", "GET /x HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("b", longestLine), "400"},
		{"one that is refused after one that is served", plain + "GET /x HTTP/1.1\n\n" + hidden, "/one: , 400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, part := range []int{1, len(c.sent)} { // byte by byte, and all at once
				synctest.Test(t, func(t *testing.T) {
					l := memnet.Listen()
					defer serveEcho(t, Strict(l))()
					conn, err := l.Dial(t.Context(), "tcp", "")
					if err != nil {
						t.Fatal(err)
					}
					if got := exchange(t, conn, c.sent, part); got != c.want {
						t.Errorf("in parts of %d: answered %q, want %q", part, got, c.want)
					}
				})
			}
		})
	}
}

// TestStrictTLS checks that encrypted connections are strict, too, that requests know of the encryption, and that
// clients may speak HTTP/2.
func TestStrictTLS(t *testing.T) {
	now := time.Now()
	cert, key := certtest.Write(t, t.TempDir(), 1, now.Add(-time.Hour), now.Add(time.Hour))
	c, err := ReadCertificate(cert, key, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	inner := memnet.Listen()
	defer serveEcho(t, c.Over(inner))()
	trust := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is the test's own
	conn, err := inner.Dial(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	sent := plain + "GET /x HTTP/1.1\n\n" + hidden
	if got := exchange(t, tls.Client(conn, trust), sent, len(sent)); got != "/one: encrypted , 400" {
		t.Errorf("answered %q", got)
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: inner.Dial, TLSClientConfig: trust, ForceAttemptHTTP2: true,
	}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("https://x/two")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || answer.ProtoMajor != 2 {
		t.Errorf("HTTP/%d: %s %v", answer.ProtoMajor, text, err)
	}
}

// serveEcho answers requests of a listener with their path and body.
func serveEcho(t *testing.T, l net.Listener) (stop func()) {
	t.Helper()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		said := r.URL.Path + ": "
		if r.TLS != nil {
			said += "encrypted "
		}
		if said += string(text); err != nil {
			said = r.URL.Path + " broken"
		}
		_, _ = io.WriteString(w, said) // the client may have gone
	}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	return func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

// exchange sends a text in parts and returns what is answered to it, until the server has nothing more to say.
func exchange(t *testing.T, conn net.Conn, sent string, part int) string {
	t.Helper()
	go func() { // the server may stop to read
		for len(sent) > 0 {
			n := min(part, len(sent))
			if _, err := io.WriteString(conn, sent[:n]); err != nil {
				return
			}
			sent = sent[n:]
		}
	}()
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	var answers []string
	for r := bufio.NewReader(conn); ; {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		text, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if said := string(text); answer.StatusCode == http.StatusOK {
			answers = append(answers, said)
		} else {
			answers = append(answers, answer.Status[:3])
		}
	}
	_ = conn.Close() // the server may have closed it first
	return strings.Join(answers, ", ")
}
