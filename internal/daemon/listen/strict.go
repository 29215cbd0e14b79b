package listen

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// Strict returns a listener that answers a request of HTTP/1 with 400 and closes its connection, if readers of HTTP
// could disagree about where it ends: with Content-Length beside Transfer-Encoding, two of either, line feeds alone, or
// fields that continue in the next line.
func Strict(l net.Listener) net.Listener { return strict{l} }

type strict struct{ net.Listener }

func (l strict) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &strictConn{Conn: conn}, nil
}

// strictConn is a connection whose requests are checked before net/http reads them.
type strictConn struct {
	net.Conn
	frames frames
	came   [4 << 10]byte
	ready  []byte // checked, and not read yet
}

func (c *strictConn) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		if c.frames.next == refused {
			return 0, io.EOF
		}
		n, err := c.Conn.Read(c.came[:])
		if c.ready = c.frames.pass(c.ready[:0], c.came[:n]); err != nil && len(c.ready) == 0 {
			return 0, err
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// handshakeWithin is how long a client may take to agree on TLS.
const handshakeWithin = 10 * time.Second

// encrypted accepts connections once they are encrypted. Those of HTTP/1 are strict. HTTP/2 has unambiguous frames, and
// net/http needs the original connections.
type encrypted struct {
	net.Listener
	accepted chan accepted
	closed   chan struct{}
	once     sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// encrypt returns a listener whose connections are encrypted.
func encrypt(l net.Listener, config *tls.Config) net.Listener {
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
			go e.shake(tls.Server(conn, config))
		}
	}()
	return e
}

// shake does the TLS handshake of a connection. A connection whose handshake fails is passed on, too: net/http reports
// the error.
func (l *encrypted) shake(conn *tls.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeWithin)
	defer cancel()
	_ = conn.HandshakeContext(ctx) // net/http asks again
	var shaken net.Conn = conn
	if conn.ConnectionState().HandshakeComplete && conn.ConnectionState().NegotiatedProtocol != "h2" {
		shaken = &strictTLS{strictConn{Conn: conn}, conn}
	}
	if !l.give(accepted{conn: shaken}) {
		_ = conn.Close() // nobody reads it
	}
}

// give passes a connection or an error to the caller of Accept, or returns false if the listener was closed.
func (l *encrypted) give(a accepted) bool {
	select {
	case l.accepted <- a:
		return true
	case <-l.closed:
		return false
	}
}

func (l *encrypted) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *encrypted) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// strictTLS is an encrypted connection of HTTP/1.
type strictTLS struct {
	strictConn
	tls *tls.Conn
}

// ConnectionState returns the state of the encryption, for the requests of the connection.
func (c *strictTLS) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }
