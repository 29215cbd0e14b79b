package memnet

import (
	"context"
	"net"
	"sync"
)

// Net is a network of several listeners, each with an address. Its zero value has none.
type Net struct {
	mu sync.Mutex
	at map[string]*Listener
}

// Listen returns a new listener at an address. It takes the place of an earlier one.
func (n *Net) Listen(address string) *Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil {
		n.at = map[string]*Listener{}
	}
	l := listen(address)
	n.at[address] = l
	return l
}

// Dial connects to the listener at an address.
func (n *Net) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.at[address]
	n.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	return l.Dial(ctx, network, address)
}

// Peer is one process on a network, as it reaches others.
type Peer struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	dead bool
	open []net.Conn
}

// NewPeer returns a process that reaches others by dial.
func NewPeer(dial func(ctx context.Context, network, address string) (net.Conn, error)) *Peer {
	return &Peer{dial: dial}
}

// Dial connects the process to an address.
func (p *Peer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := p.dial(ctx, network, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case p.dead:
		_ = c.Close()
		return nil, errRefused
	}
	p.open = append(p.open, c)
	return c, nil
}

// Die breaks the connections that the process has made. It can make no others.
func (p *Peer) Die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}
