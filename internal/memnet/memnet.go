// Package memnet is a network within the process of a test. Connections over it are in memory, so that virtual time
// passes while they are idle.
package memnet

import (
	"context"
	"errors"
	"net"
	"sync"
)

var errRefused = &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused")}

// Listener is a net.Listener that only its own Dial reaches, and the Dial of its [Net].
type Listener struct {
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once

	mu   sync.Mutex
	open []net.Conn // the servers' ends
}

// Listen returns a new listener.
func Listen() *Listener { return listen("memory") }

func listen(address string) *Listener {
	return &Listener{address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *Listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.address, Net: "pipe"} }

// Dial connects to the listener. Its form is that of http.Transport's DialContext, and the address does not matter.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, there)
		return here, nil
	case <-l.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Cut breaks all connections.
func (l *Listener) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}
