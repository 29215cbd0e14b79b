package listen

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/certtest"
)

// echoing listens as g says, and answers each connection that is taken with what it sends. The result is the address.
func echoing(t *testing.T, g *GRPC) string {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := g.Over(inner)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return inner.Addr().String()
}

// send sends a text over a connection, and returns what comes back until the connection ends or the text has.
func send(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, text)
	var got bytes.Buffer
	_, _ = io.CopyN(&got, conn, int64(len(text)))
	if got.Len() < len(text) || got.String() == text {
		return got.String()
	}
	rest, _ := io.ReadAll(conn)
	return got.String() + string(rest)
}

func plainly(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestGRPC checks which connections are taken, and that the others are told why.
func TestGRPC(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certtest.Write(t, dir, 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	own, err := ReadCertificate(cert, key, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	trusting := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}}
	const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	both := echoing(t, &GRPC{Certificate: own, Plain: true})
	if got := send(t, plainly(t, both), hello); got != hello {
		t.Errorf("a plain connection beside TLS: %q", got)
	}
	secure, err := tls.Dial("tcp", both, trusting)
	if err != nil {
		t.Fatal(err)
	}
	if got := send(t, secure, hello); got != hello || secure.ConnectionState().NegotiatedProtocol != "h2" {
		t.Errorf("TLS: %q by %s", got, secure.ConnectionState().NegotiatedProtocol)
	}

	only := echoing(t, &GRPC{Certificate: own, Refuse: func(conn net.Conn) {
		_, _ = io.CopyN(io.Discard, conn, int64(len(hello)))
		_, _ = io.WriteString(conn, "with TLS only, please: switch it on")
		_ = conn.Close()
	}})
	if got := send(t, plainly(t, only), hello); !strings.Contains(got, "with TLS only") {
		t.Errorf("a plain connection where TLS is asked for: %q", got)
	}

	var logged bytes.Buffer
	plain := &GRPC{Plain: true, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	if _, err := tls.Dial("tcp", echoing(t, plain), trusting); err == nil {
		t.Error("TLS without a certificate was agreed on")
	}
	plain.mu.Lock()
	defer plain.mu.Unlock()
	if !strings.Contains(logged.String(), "--tls-cert") {
		t.Errorf("the log says %q", logged.String())
	}
}

// TestClientCertificates checks that a client without a certificate that is asked for is refused.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certtest.Write(t, dir, 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	own, err := ReadCertificate(cert, key, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadClients(key); err == nil {
		t.Error("a key is taken for a certificate")
	}
	clients, err := ReadClients(cert)
	if err != nil {
		t.Fatal(err)
	}
	address := echoing(t, &GRPC{Certificate: own, Clients: clients})
	nobody, err := tls.Dial("tcp", address, &tls.Config{
		RootCAs: clients, ServerName: "localhost", NextProtos: []string{"h2"},
	})
	if err == nil { // the server looks at the certificate after the client has agreed
		if got := send(t, nobody, "hello"); got != "" {
			t.Errorf("without a certificate: %q", got)
		}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	known, err := tls.Dial("tcp", address, &tls.Config{
		RootCAs: clients, ServerName: "localhost", NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := send(t, known, "hello"); got != "hello" {
		t.Errorf("with a certificate: %q", got)
	}
}
