package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// GRPC specifies which connections a listener of gRPC takes. A client that speaks TLS to a plain port cannot be told
// why it is not taken: the log has it.
type GRPC struct {
	Certificate *Certificate   // nil: there is no TLS
	Clients     *x509.CertPool // signers of the certificates that clients show; nil: they show none
	Plain       bool           // connections without TLS are taken
	Log         *slog.Logger   // nil: nothing is logged
	// Refuse tells the client of a connection without TLS that it is not taken, and closes it. nil: it is closed.
	Refuse func(net.Conn)

	mu   sync.Mutex
	told time.Time
}

// ReadClients reads the certificates that sign those of clients.
func ReadClients(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(file + " has no certificate in PEM")
	}
	return pool, nil
}

// tlsRecord is the first byte of a connection that begins with a handshake of TLS.
const tlsRecord = 0x16

// Over returns the listener.
func (g *GRPC) Over(l net.Listener) net.Listener {
	if g.Log == nil {
		g.Log = slog.New(slog.DiscardHandler)
	}
	var config *tls.Config
	if g.Certificate != nil {
		config = &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: g.Certificate.current, NextProtos: []string{"h2"},
		}
		if g.Clients != nil {
			config.ClientCAs, config.ClientAuth = g.Clients, tls.RequireAndVerifyClientCert
		}
	}
	e := &encrypted{Listener: l, accepted: make(chan accepted), closed: make(chan struct{})}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				if !e.give(accepted{err: err}) {
					return
				}
				continue
			}
			go g.begin(e, conn, config)
		}
	}()
	return e
}

// begin looks how a connection begins, and passes it on if it is taken.
func (g *GRPC) begin(e *encrypted, conn net.Conn, config *tls.Config) {
	first := make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(handshakeWithin))
	if _, err := io.ReadFull(conn, first); err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	begun := &begunConn{Conn: conn, first: first}
	switch isTLS := first[0] == tlsRecord; {
	case isTLS && config == nil:
		g.tell(conn)
	case isTLS:
		shaken := tls.Server(begun, config)
		ctx, cancel := context.WithTimeout(context.Background(), handshakeWithin)
		defer cancel()
		if err := shaken.HandshakeContext(ctx); err != nil {
			g.Log.Debug("a client does not agree on TLS", "from", conn.RemoteAddr().String(), "error", err)
		} else if e.give(accepted{conn: shaken}) {
			return
		}
	case g.Plain:
		if e.give(accepted{conn: begun}) {
			return
		}
	case g.Refuse != nil:
		g.Refuse(begun)
		return
	}
	_ = conn.Close()
}

// tellEvery is the pause between two lines of the log about clients that speak TLS to a plain port.
const tellEvery = time.Minute

// tell tells of a client that speaks TLS where there is none: it only learns that this is not TLS.
func (g *GRPC) tell(conn net.Conn) {
	_, _ = io.WriteString(conn, "this port has no TLS\n")
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.told) < tellEvery {
		return
	}
	g.told = time.Now()
	g.Log.Warn("a client of Temporal's protocol speaks TLS, and this port has none: an API key switches TLS on in the "+
		"SDKs; start the server with --tls-cert and --tls-key, or switch TLS off in the client",
		"from", conn.RemoteAddr().String())
}

// begunConn is a connection whose first byte was read.
type begunConn struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
