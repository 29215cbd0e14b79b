package pgtest

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy is between a program and a server and loses data, as a network does.
type Proxy struct {
	t      testing.TB
	to     string // the server's address
	dsn    *url.URL
	listen net.Listener
	pumps  sync.WaitGroup

	mu    sync.Mutex
	next  lose
	kept  func() // delivers what Delay has kept
	conns map[net.Conn]bool
	held  [2]chan struct{} // the channels of requests and of replies: closed while they pass
	done  bool
}

// lose sets what is lost next.
type lose uint8

const (
	nothing lose = iota
	request
	reply
	delay
)

// NewProxy starts a proxy before the server of a DSN in the form of a URL. It ends with the test.
func NewProxy(t testing.TB, dsn string) *Proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skipf("a proxy needs a DSN like postgres://host:5432/database: %v", err)
	}
	listen, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, to: u.Host, dsn: u, listen: listen, conns: map[net.Conn]bool{}}
	for i := range p.held {
		p.held[i] = make(chan struct{})
		close(p.held[i])
	}
	p.pumps.Go(p.accept)
	t.Cleanup(func() {
		p.Release()
		p.mu.Lock()
		p.done = true
		p.mu.Unlock()
		_ = listen.Close()
		p.Cut()
		p.pumps.Wait()
	})
	return p
}

// DSN returns the DSN by which the server is reached through the proxy.
func (p *Proxy) DSN() string {
	u := *p.dsn
	u.Host = p.Address()
	return u.String()
}

// Address returns where the proxy listens.
func (p *Proxy) Address() string { return p.listen.Addr().String() }

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Hold passes nothing on until Release. Nobody is notified.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = [2]chan struct{}{make(chan struct{}), make(chan struct{})}
}

// HoldReplies passes requests on, and no replies until Release.
func (p *Proxy) HoldReplies() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[1] = make(chan struct{})
}

// Release ends what Hold or HoldReplies began.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, held := range p.held {
		select {
		case <-held:
		default:
			close(held)
		}
	}
}

// LoseRequest cuts the connection on which the next request comes, before the server gets it.
func (p *Proxy) LoseRequest() { p.set(request) }

// LoseReply cuts the connection on which the next reply comes: what it answers was carried out.
func (p *Proxy) LoseReply() { p.set(reply) }

// Delay cuts the connection on which the next request comes, and keeps the request until Deliver.
func (p *Proxy) Delay() { p.set(delay) }

func (p *Proxy) set(next lose) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = next
}

// Deliver gives the server the request that Delay has kept, and returns when the server has answered.
func (p *Proxy) Deliver() {
	p.t.Helper()
	p.mu.Lock()
	kept := p.kept
	p.kept = nil
	p.mu.Unlock()
	if kept == nil {
		p.t.Fatal("no request was kept")
	}
	kept()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		if p.done {
			_, _ = client.Close(), server.Close()
		}
		p.mu.Unlock()
		answered := make(chan struct{})
		p.pumps.Go(func() {
			if chunk := p.pump(server, client, false); chunk != nil {
				p.keep(server, client, chunk, answered)
				return
			}
			p.close(server, client)
		})
		p.pumps.Go(func() {
			defer close(answered)
			p.pump(client, server, true)
			p.close(server, client)
		})
	}
}

func (p *Proxy) close(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns[c] {
			delete(p.conns, c)
			_ = c.Close()
		}
	}
}

// pump passes on the data of one side, until something is lost. It returns the part to keep.
func (p *Proxy) pump(to, from net.Conn, replies bool) []byte {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return nil
		}
		p.mu.Lock()
		held := p.held[0]
		if replies {
			held = p.held[1]
		}
		p.mu.Unlock()
		<-held
		switch p.take(replies) {
		case request, reply:
			return nil
		case delay:
			return buf[:n]
		case nothing:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return nil
		}
	}
}

// take returns the part of this chunk to lose.
func (p *Proxy) take(replies bool) lose {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.next
	if next == nothing || replies != (next == reply) {
		return nothing
	}
	p.next = nothing
	return next
}

// keep cuts the client off and leaves the server's connection open.
func (p *Proxy) keep(server, client net.Conn, chunk []byte, answered <-chan struct{}) {
	p.mu.Lock()
	p.kept = func() {
		if _, err := server.Write(chunk); err != nil {
			p.t.Errorf("the request that was kept: %v", err)
		}
		<-answered // the reply is for a client that is gone, which ends the connection
	}
	p.mu.Unlock()
	p.close(client)
}
